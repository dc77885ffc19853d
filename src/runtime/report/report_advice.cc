// See report_advice.h. Thresholds are where a person would see the matter in the numbers at a
// glance; nothing else hangs on them.
#include "runtime/report/report_advice.h"

#include <fmt/format.h>

#include "runtime/report/report_html.h"

namespace spillway {
namespace {

constexpr double kHardlyStalled = 0.03;  // of the time
constexpr double kMost = 0.5;            // of the waiting
constexpr double kMany = 0.25;           // of the prefetches

struct Waiting {
  double all_s = 0;
  double host_s = 0;
  double storage_s = 0;
  double fresh_s = 0;
};

Waiting sum_of(const std::vector<RunWait>& waits) {
  Waiting sum;
  for (const RunWait& wait : waits) {
    sum.all_s += wait.wait_s;
    sum.host_s += wait.host_s;
    sum.storage_s += wait.storage_s;
    sum.fresh_s += wait.fresh_s;
  }
  return sum;
}

bool exceeds(std::uint64_t part, double fraction, std::uint64_t whole) {
  return static_cast<double>(part) > fraction * static_cast<double>(whole);
}

std::string little_to_gain(const RunRecord& session) {
  const Bytes device_bytes = session.budget(Tier::kDevice);
  std::string text = fmt::format("Only {} of the time was stalled: there is little to gain.",
                                 percent_text(session.times.stalled_s, session.times.elapsed_s));
  if (session.memory.peak_bytes <= device_bytes) {
    text += fmt::format(
        " All that was alive at once ({}) fits in the {} of device memory, so this run says "
        "little about memory that is short.",
        format_bytes(session.memory.peak_bytes), format_bytes(device_bytes));
  }
  return text;
}

std::string storage_advice(const RunRecord& session, const Waiting& waiting) {
  const Bytes device_bytes = session.budget(Tier::kDevice);
  const Bytes host_bytes = session.budget(Tier::kHost);
  std::string text =
      fmt::format("Most of the waiting below ({}) was for storage: raise `--host-memory` (now {})",
                  percent_text(waiting.storage_s, waiting.all_s), format_bytes(host_bytes));
  if (session.memory.peak_bytes > device_bytes + host_bytes) {
    text += fmt::format("; with {} nothing would have to go to storage",
                        format_bytes(session.memory.peak_bytes - device_bytes));
  }
  return text + ".";
}

void add_prefetch_advice(const RunRecord& session, std::vector<std::string>& advice) {
  if (session.policy == "base_uvm") {
    advice.emplace_back(
        "base_uvm moves blocks only once something has stopped at them: without `--policy` it is "
        "one "
        "that fetches ahead.");
    return;
  }
  if (session.work.launches == 0) {
    advice.emplace_back(
        "No launch was seen, so nothing could be learned and fetched ahead: `spillway doctor` says "
        "whether the program's operators can be seen.");
    return;
  }
  if (exceeds(session.prefetches.late, kMany, session.prefetches.blocks)) {
    advice.push_back(fmt::format(
        "{} of {} prefetches were still on their way when they were needed: the link between the "
        "tiers is the limit. Only less traffic helps: more `--device-memory`, or a smaller batch.",
        session.prefetches.late, session.prefetches.blocks));
  } else if (session.prefetches.blocks < session.work.page_faults) {
    advice.push_back(fmt::format(
        "Less was fetched ahead ({} blocks) than faulted ({}): {} learns while the program repeats "
        "itself, so a run of more iterations stalls less in each.",
        session.prefetches.blocks, session.work.page_faults, session.policy));
  }
}

}  // namespace

std::vector<std::string> advice_for(const RunRecord& session) {
  if (session.times.elapsed_s <= 0) {
    return {};
  }
  if (session.times.stalled_s < kHardlyStalled * session.times.elapsed_s) {
    return {little_to_gain(session)};
  }
  std::vector<std::string> advice;
  const Waiting waiting = sum_of(session.longest_waits);
  if (waiting.storage_s > kMost * waiting.all_s) {
    advice.push_back(storage_advice(session, waiting));
  } else if (waiting.fresh_s > kMost * waiting.all_s) {
    advice.push_back(fmt::format(
        "Most of the waiting below ({}) was for memory that was new, which has to be made room for "
        "and zeroed: more `--device-memory` saves the first, and a program that keeps and reuses "
        "its "
        "buffers the second.",
        percent_text(waiting.fresh_s, waiting.all_s)));
  } else {
    add_prefetch_advice(session, advice);
  }
  if (session.policy.starts_with("deepum") &&
      exceeds(session.prefetches.wasted, kMany, session.prefetches.blocks)) {
    advice.push_back(
        fmt::format("{} of {} prefetches left again before anything used them: a lower "
                    "`--prefetch-degree` moves less in vain.",
                    session.prefetches.wasted, session.prefetches.blocks));
  }
  return advice;
}

}  // namespace spillway
