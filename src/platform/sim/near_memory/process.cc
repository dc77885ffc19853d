// The clock. See process.h.
#include "platform/sim/near_memory/process.h"

#include <algorithm>

namespace spillway::sim::near_memory {

// The first that may go on at this time.
bool World::resume_one() {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [](const Waiting& waiting) { return waiting.holds(); });
  if (found == waiting_.end()) {
    return false;
  }
  const std::coroutine_handle<> handle = found->handle;
  waiting_.erase(found);
  handle.resume();
  return true;
}

// To the next time at which something ends, which then goes on.
bool World::advance() {
  const TimeNs flow_ns = flows_.next_completion_ns().value_or(kForever);
  const TimeNs timer_ns = timers_.empty() ? kForever : timers_.begin()->first;
  if (flow_ns == kForever && timer_ns == kForever) {
    return false;
  }
  now_ns_ = std::min(flow_ns, timer_ns);
  std::coroutine_handle<> handle = std::noop_coroutine();
  if (flow_ns > timer_ns) {
    handle = timers_.begin()->second;
    timers_.erase(timers_.begin());
  } else if (const auto key = flows_.take_completed(now_ns_)) {
    handle = transfers_.extract(*key).mapped();
  }
  handle.resume();
  return true;
}

Status World::run(std::vector<Process> processes) {
  for (Process& process : processes) {
    process.begin();
  }
  while (resume_one() || advance()) {
  }
  const auto stuck = std::count_if(processes.begin(), processes.end(),
                                   [](const Process& process) { return !process.ended(); });
  waiting_.clear();
  if (stuck > 0) {
    return make_error(ErrorCode::kDefect, "{} of {} processes wait for ever, from {} on", stuck,
                      processes.size(), format_time(now_ns_));
  }
  return {};
}

}  // namespace spillway::sim::near_memory
