// See launch_log.h.
#include "platform/common/launch_log.h"

#include <algorithm>
#include <utility>

#include "platform/common/process/clock.h"

namespace spillway {

LaunchLog::Launched LaunchLog::launched(const LaunchHash& hash, std::string_view name,
                                        std::string_view module) {
  const ExecutionId execution = executions_.id_of(hash);
  const LogRow row =
      module.empty() ? row_of(execution, name) : row_in_module(execution, name, module);
  ++rows_[row].launches;
  return {.execution = execution, .row = row};
}

LogRow LaunchLog::row_of(ExecutionId execution, std::string_view name) {
  if (execution >= by_execution_.size()) {
    by_execution_.resize(execution + std::size_t{1}, kNoLogRow);
  }
  LogRow& row = by_execution_[execution];
  if (row == kNoLogRow) {
    name_ = name;
    const auto known = by_name_.find(name_);
    row = known != by_name_.end() ? known->second : new_row(name_, {});
  }
  return row;
}

LogRow LaunchLog::new_row(const std::string& name, std::string_view module) {
  const auto row = static_cast<LogRow>(rows_.size());
  if (by_name_.size() < kMostNames) {
    by_name_.emplace(name, row);
  }
  LaunchWaits& added = rows_.emplace_back();
  added.name = name;
  added.module = module;
  return row;
}

LogRow LaunchLog::row_in_module(ExecutionId execution, std::string_view name,
                                std::string_view module) {
  name_.assign(module).append(" ").append(name);
  if (const auto known = by_name_.find(name_); known != by_name_.end()) {
    return known->second;
  }
  if (by_name_.size() == kMostNames) {
    return row_of(execution, name);
  }
  return new_row(name_, module);
}

void LaunchLog::waited(LogRow row, Source from, TimeNs waited_ns) {
  if (events_ != nullptr) {
    const auto what = from == Source::kHostCopy      ? LoggedWait::For::kHost
                      : from == Source::kStorageCopy ? LoggedWait::For::kStorage
                                                     : LoggedWait::For::kNewMemory;
    const TimeNs at_ns = now_ns();
    events_->waited(row, what, at_ns - waited_ns, at_ns);
  }
  if (row == kNoLogRow) {
    return;
  }
  LaunchWaits& waits = rows_[row];
  ++waits.blocks;
  waits.wait_ns += waited_ns;
  (from == Source::kHostCopy      ? waits.host_ns
   : from == Source::kStorageCopy ? waits.storage_ns
                                  : waits.fresh_ns) += waited_ns;
}

void LaunchLog::waited_for_room(LogRow row, TimeNs waited_ns) {
  if (events_ != nullptr) {
    const TimeNs at_ns = now_ns();
    events_->waited(row, LoggedWait::For::kRoom, at_ns - waited_ns, at_ns);
  }
  rows_[row].wait_ns += waited_ns;
}

std::vector<LaunchWaits> LaunchLog::longest_waits() const {
  std::vector<LaunchWaits> waits = rows_;
  std::sort(waits.begin(), waits.end(),
            [](const LaunchWaits& a, const LaunchWaits& b) { return a.wait_ns > b.wait_ns; });
  return waits;
}

std::optional<RecordedIteration> LaunchLog::end_recording(TimeNs at_ns, TimeNs stalled_ns) {
  std::optional<IterationRecorder> recorder = std::exchange(recorder_, std::nullopt);
  return recorder ? recorder->finish(at_ns, stalled_ns) : std::nullopt;
}

}  // namespace spillway
