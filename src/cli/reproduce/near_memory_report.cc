// Tables of near-memory rows. See near_memory_report.h.
#include "cli/reproduce/near_memory_report.h"

#include <fmt/format.h>

#include "cli/study_table.h"
#include "runtime/reproduce/near_memory/near_memory_timeline.h"

namespace spillway {

std::string near_memory_report(const reproduce::NearStudy& study) {
  constexpr std::size_t kColumns = 96;
  std::string out =
      "One number is fitted, to table 6: NVMe to GPU, 1.9 GB/s. All others are the paper's, of "
      "data sheets\nand standards, or chosen by an argument. Where the paper leaves the schedule "
      "open "
      "(one stream, one\nrequest to NVMe, updates that exclude transfers), it is as table 6 "
      "suggests; what else would do is\nbelow. docs/near-memory.md has the grounds.\n\n";
  for (const reproduce::NearTable& table : study.tables) {
    out += study_table(table);
  }
  out += fmt::format("Figure 4: GPT-3 Large on the AXDIMM, {:.2f} s, a letter a layer\n{}\n",
                     to_seconds(study.timeline.total_ns()),
                     reproduce::timeline_text(study.timeline, kColumns));
  out += study_verdict(study.tables) +
         ": table 5 within 5 %, table 6 within 15 %, its speed-ups within 0.1\n";
  return out;
}

}  // namespace spillway
