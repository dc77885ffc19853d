// The program's launches: named, or only marked, and recorded for policies that plan. See
// host_platform.h.
#include <algorithm>
#include <utility>

#include "platform/host/block_span.h"
#include "platform/host/host_platform.h"

namespace spillway::host {

// Blocks at the ends of what a launch overwrites may have bytes that it does not.
void HostPlatform::add_accesses(const Operand& operand, Launch& launch) const {
  const std::optional<BlockRange> all = blocks_with(operand.start, operand.bytes);
  if (!all) {
    return;
  }
  const BlockId end = all->first + all->count;
  const auto add = [&](BlockId from, BlockId to, AccessMode mode) {
    if (from < to) {
      launch.accesses.push_back({.allocation = all->allocation,
                                 .first_block = from,
                                 .block_count = to - from,
                                 .mode = mode});
    }
  };
  const std::optional<BlockRange> whole = blocks_within(operand.start, operand.bytes);
  if (operand.mode != AccessMode::kOverwrite || !whole || whole->count == 0) {
    const bool overwrites = operand.mode == AccessMode::kOverwrite;
    add(all->first, end, overwrites ? AccessMode::kWrite : operand.mode);
    return;
  }
  add(all->first, whole->first, AccessMode::kWrite);
  add(whole->first, whole->first + whole->count, AccessMode::kOverwrite);
  add(whole->first + whole->count, end, AccessMode::kWrite);
}

LaunchId HostPlatform::begin_launch(std::string_view name, std::span<const Operand> operands) {
  std::unique_lock lock(mutex_);
  take_marks();
  Launch launch;
  std::vector<LaunchOperand> identity;
  for (const Operand& operand : operands) {
    add_accesses(operand, launch);
    const auto* const start = static_cast<const char*>(operand.start);
    identity.push_back(
        {.allocation = static_cast<std::uint64_t>(start - base_), .bytes = operand.bytes});
  }
  launch.tag = next_tag_++;
  launch.execution = executions_.id_of(hash_launch(name, identity));
  current_ = launch.execution;
  LaunchWaits& waits = waits_of(launch.execution, name);
  ++waits.launches;
  const TimeNs begin_ns = now_ns();
  if (recorder_) {
    recorder_->launch(launch.execution, name, begin_ns, stalled_ns_, true);
    for (const Access& access : launch.accesses) {
      recorder_->access(access.allocation, engine_.space().allocation(access.allocation).bytes,
                        writes(access.mode));
    }
  }
  LaunchAdmission admission = issue(launch);
  if (admission.state == LaunchState::kTooLarge) {
    launch.accesses.clear();
    admission = issue(launch);
  }
  for (const Access& access : launch.accesses) {
    engine_.note_accesses(latest_, access.first_block, access.block_count);
  }
  if (admission.state != LaunchState::kWaiting) {
    std::erase(ready_, launch.tag);
    return admission.id;
  }
  begin_stall(begin_ns);
  launch_ready_.wait(lock, [&] { return std::erase(ready_, launch.tag) > 0; });
  end_stall();
  const TimeNs waited_ns = now_ns() - begin_ns;
  LaunchWaits& after = waits_[launch.execution];
  after.blocks += admission.missing_blocks;
  after.wait_ns += waited_ns;
  after.host_ns += waited_ns;
  stats_.fault_wait_ns += waited_ns;
  return admission.id;
}

// Who faults from here on does so during this launch.
LaunchAdmission HostPlatform::issue(const Launch& launch) {
  latest_.tag = launch.tag;
  latest_.execution = launch.execution;
  latest_.tells_all = launch.tells_all;
  return engine_.issue_launch(launch);
}

void HostPlatform::end_launch(LaunchId launch) {
  const std::scoped_lock lock(mutex_);
  engine_.end_launch(launch);
}

LaunchFit HostPlatform::fit(std::span<const Operand> operands) const {
  const std::scoped_lock lock(mutex_);
  Launch launch;
  for (const Operand& operand : operands) {
    add_accesses(operand, launch);
  }
  return engine_.fit(launch);
}

void HostPlatform::mark_launch(LaunchHash hash, std::string_view name, bool tells_all) {
  std::size_t waiting = 0;
  {
    const std::scoped_lock lock(marks_mutex_);
    auto known = names_.find(name);
    if (known == names_.end()) {
      known = names_.emplace(name).first;
    }
    marks_.push_back({.hash = hash,
                      .name = *known,
                      .first_block = 0,
                      .block_count = 0,
                      .tells_all = tells_all,
                      .writes = false,
                      .at_ns = now_ns(),
                      .stalled_ns = stalled_ns_});
    waiting = marks_.size();
  }
  // While nothing has had to leave, there is nothing to predict, and no hurry to learn.
  constexpr std::size_t kManyMarks = 256;
  if (pressed_.load(std::memory_order_relaxed) || waiting % kManyMarks == 0) {
    wake_correlator();
  }
}

void HostPlatform::mark_access(const void* start, Bytes bytes, bool writes) {
  if (!contains(start) || bytes == 0) {
    return;
  }
  const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(start) - base_);
  const BlockSpan span = host::blocks_with(offset, bytes);
  const std::scoped_lock lock(marks_mutex_);
  marks_.push_back({.hash = {},
                    .name = {},
                    .first_block = static_cast<BlockId>(span.first),
                    .block_count = static_cast<std::uint32_t>(span.count),
                    .tells_all = false,
                    .writes = writes,
                    .at_ns = 0,
                    .stalled_ns = 0});
}

void HostPlatform::begin_recording() {
  const std::scoped_lock lock(mutex_);
  take_marks();
  recorder_.emplace();
}

std::optional<RecordedIteration> HostPlatform::end_recording() {
  const std::scoped_lock lock(mutex_);
  take_marks();
  std::optional<IterationRecorder> recorder = std::exchange(recorder_, std::nullopt);
  return recorder ? recorder->finish(now_ns(), stalled_ns_) : std::nullopt;
}

void HostPlatform::change_policy(const std::function<void()>& change) {
  const std::scoped_lock lock(mutex_);
  change();
}

// What was launched before the death comes before it.
void HostPlatform::record_death(AllocationId id) {
  if (recorder_) {
    take_marks();
    recorder_->died(id);
  }
}

LaunchWaits& HostPlatform::waits_of(ExecutionId execution, std::string_view name) {
  if (execution >= waits_.size()) {
    waits_.resize(execution + std::size_t{1});
  }
  if (waits_[execution].name.empty()) {
    waits_[execution].name = name;
  }
  return waits_[execution];
}

}  // namespace spillway::host
