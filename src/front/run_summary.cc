// See run_summary.h.
#include "front/run_summary.h"

#include <cstdio>

#include "runtime/host/run_records.h"
#include "runtime/host/run_text.h"

namespace spillway {

Status summarize_run(const std::string& folder, bool json) {
  const RunRecords records = read_run_records(folder);
  for (const RunRecord& record : records.all) {
    if (json) {
      std::fputs((to_json(record) + "\n").c_str(), stdout);
    } else {
      std::fputs(summary_text(record).c_str(), stderr);
    }
  }
  if (!records.unreadable.empty()) {
    std::fputs("spillway: the run left no readable record\n", stderr);
  } else if (records.all.empty()) {
    std::fputs(
        "spillway: no large allocation was made, or the program ended without its exit "
        "handlers: there is nothing to report\n",
        stderr);
  }
  return {};
}

}  // namespace spillway
