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
  const auto flow_ns = flows_.next_completion_ns();
  if (!flow_ns && timers_.empty()) {
    return false;
  }
  if (timers_.empty() || (flow_ns && *flow_ns <= timers_.begin()->first)) {
    now_ns_ = *flow_ns;
    if (const auto key = flows_.take_completed(now_ns_)) {
      const auto found = transfers_.find(*key);
      const std::coroutine_handle<> handle = found->second;
      transfers_.erase(found);
      handle.resume();
    }
    return true;
  }
  const auto timer = timers_.begin();
  const std::coroutine_handle<> handle = timer->second;
  now_ns_ = timer->first;
  timers_.erase(timer);
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
