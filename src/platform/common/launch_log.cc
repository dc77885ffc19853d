// See launch_log.h.
#include "platform/common/launch_log.h"

#include <algorithm>
#include <utility>

#include "platform/common/clock.h"

namespace spillway {

ExecutionId LaunchLog::launched(const LaunchHash& hash, std::string_view name) {
  const ExecutionId execution = executions_.id_of(hash);
  if (execution >= waits_.size()) {
    waits_.resize(execution + std::size_t{1});
    waits_[execution].name = name;
  }
  ++waits_[execution].launches;
  return execution;
}

void LaunchLog::waited(ExecutionId execution, Source from, TimeNs waited_ns) {
  if (events_ != nullptr) {
    const auto what = from == Source::kHostCopy      ? LoggedWait::For::kHost
                      : from == Source::kStorageCopy ? LoggedWait::For::kStorage
                                                     : LoggedWait::For::kNewMemory;
    const TimeNs at_ns = now_ns();
    events_->waited(execution, what, at_ns - waited_ns, at_ns);
  }
  if (execution == kNoExecution) {
    return;
  }
  LaunchWaits& waits = waits_[execution];
  ++waits.blocks;
  waits.wait_ns += waited_ns;
  (from == Source::kHostCopy      ? waits.host_ns
   : from == Source::kStorageCopy ? waits.storage_ns
                                  : waits.fresh_ns) += waited_ns;
}

void LaunchLog::waited_for_room(ExecutionId execution, TimeNs waited_ns) {
  if (events_ != nullptr) {
    const TimeNs at_ns = now_ns();
    events_->waited(execution, LoggedWait::For::kRoom, at_ns - waited_ns, at_ns);
  }
  waits_[execution].wait_ns += waited_ns;
}

std::vector<LaunchWaits> LaunchLog::longest_waits() const {
  std::vector<LaunchWaits> waits = waits_;
  std::sort(waits.begin(), waits.end(),
            [](const LaunchWaits& a, const LaunchWaits& b) { return a.wait_ns > b.wait_ns; });
  return waits;
}

std::optional<RecordedIteration> LaunchLog::end_recording(TimeNs at_ns, TimeNs stalled_ns) {
  std::optional<IterationRecorder> recorder = std::exchange(recorder_, std::nullopt);
  return recorder ? recorder->finish(at_ns, stalled_ns) : std::nullopt;
}

}  // namespace spillway
