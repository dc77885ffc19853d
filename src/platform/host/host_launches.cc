// See host_launches.h.
#include "platform/host/host_launches.h"

#include <algorithm>

#include "engine/memory/for_each_block.h"
#include "platform/common/process/clock.h"
#include "platform/common/process/current_module.h"
#include "platform/common/storage/block_span.h"

namespace spillway::host {

// Blocks at the ends of what a launch overwrites may have bytes that it does not.
void HostLaunches::add_accesses(const ProgramOperand& operand, Launch& launch) const {
  const std::optional<BlockRange> all = addresses_.blocks_with(operand.start, operand.bytes);
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
  const std::optional<BlockRange> whole = addresses_.blocks_within(operand.start, operand.bytes);
  if (operand.mode != AccessMode::kOverwrite || !whole || whole->count == 0) {
    const bool overwrites = operand.mode == AccessMode::kOverwrite;
    add(all->first, end, overwrites ? AccessMode::kWrite : operand.mode);
    return;
  }
  add(all->first, whole->first, AccessMode::kWrite);
  add(whole->first, whole->first + whole->count, AccessMode::kOverwrite);
  add(whole->first + whole->count, end, AccessMode::kWrite);
}

LaunchId HostLaunches::begin(std::string_view name, std::span<const ProgramOperand> operands,
                             const std::function<void()>& in_line, UndisturbedMutex& mutex) {
  take_marks();
  Launch launch;
  std::vector<LaunchOperand> identity;
  for (const ProgramOperand& operand : operands) {
    add_accesses(operand, launch);
    identity.push_back({.allocation = addresses_.offset_of(operand.start), .bytes = operand.bytes});
  }
  launch.tag = next_tag_++;
  const LaunchLog::Launched logged =
      log_.launched(hash_launch(name, identity), name, current_module());
  launch.execution = logged.execution;
  if (IterationRecorder* const recorder = log_.recorder()) {
    recorder->launch(launch.execution, name, now_ns(), stalls_.ended_stalls_ns(), true);
    for (const Access& access : launch.accesses) {
      recorder->access(access.allocation, bytes_in_use_(access.allocation), writes(access.mode));
    }
  }
  LaunchAdmission admission = issue(launch, logged.row);
  if (admission.state == LaunchState::kTooLarge) {
    launch.accesses.clear();
    admission = issue(launch, logged.row);
  }
  in_line();
  if (admission.state == LaunchState::kWaiting) {
    wait(launch, logged.row, mutex);
  } else {
    std::erase(ready_, launch.tag);
  }
  // It runs: until it was admitted it used nothing.
  for (const Access& access : launch.accesses) {
    engine_.note_accesses(launch, access.first_block, access.block_count);
  }
  return admission.id;
}

// What it waits for is told by what comes: the time until the next block is that block's.
void HostLaunches::wait(const Launch& launch, LogRow row, UndisturbedMutex& mutex) {
  const TimeNs begin_ns = now_ns();
  Waiting waiting{.row = row, .missing = {}, .since_ns = begin_ns};
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    if (!engine_.space().block(id).mapped) {
      waiting.missing.insert(id);
    }
  });
  waiting_.push_back(&waiting);
  stalls_.begin(begin_ns);
  constexpr std::chrono::milliseconds kHandlersWait{20};
  while (std::erase(ready_, launch.tag) == 0) {
    mutex.wait_for(launch_ready_, kHandlersWait);
    mutex.let_handlers_run();
  }
  stalls_.end();
  std::erase(waiting_, &waiting);
  waited_ns_ += now_ns() - begin_ns;
  log_.waited_for_room(row, now_ns() - waiting.since_ns);
}

void HostLaunches::mapped(BlockId block) {
  for (Waiting* const waiting : waiting_) {
    if (waiting->missing.erase(block) > 0) {
      const TimeNs at_ns = now_ns();
      log_.waited(waiting->row, pages_.source(block), at_ns - waiting->since_ns);
      waiting->since_ns = at_ns;
    }
  }
}

void HostLaunches::released(std::uint64_t tag) {
  ready_.push_back(tag);
  launch_ready_.notify_all();
}

// Who faults from here on does so during this launch.
LaunchAdmission HostLaunches::issue(const Launch& launch, LogRow row) {
  latest_row_ = row;
  latest_.tag = launch.tag;
  latest_.execution = launch.execution;
  latest_.tells_all = launch.tells_all;
  return engine_.issue_launch(launch);
}

LaunchFit HostLaunches::fit(std::span<const ProgramOperand> operands) const {
  Launch launch;
  for (const ProgramOperand& operand : operands) {
    add_accesses(operand, launch);
  }
  return engine_.fit(launch);
}

// While nothing has had to leave, there is nothing to predict, and no hurry to learn.
bool HostLaunches::mark(const LaunchHash& hash, std::string_view name, bool tells_all) {
  constexpr std::size_t kManyMarks = 256;
  const std::size_t waiting = marks_.add_launch(hash, name, tells_all, stalls_.ended_stalls_ns());
  return pressed_.load(std::memory_order_relaxed) || waiting % kManyMarks == 0;
}

void HostLaunches::mark_access(const void* start, Bytes bytes, bool writes) {
  if (addresses_.contains(start) && bytes > 0) {
    const BlockSpan span = blocks_with(addresses_.offset_of(start), bytes);
    marks_.add_access(static_cast<BlockId>(span.first), static_cast<std::uint32_t>(span.count),
                      writes);
  }
}

void HostLaunches::take_marks() {
  marks_.take(taken_);
  for (const LaunchMark& mark : taken_) {
    mark.block_count > 0 ? use_marked(mark) : begin_marked(mark);
  }
}

void HostLaunches::begin_marked(const LaunchMark& mark) {
  if (marked_) {
    engine_.end_launch(*marked_);
  }
  Launch launch;
  launch.tag = next_tag_++;
  const LaunchLog::Launched logged = log_.launched(mark.hash, mark.name, mark.module);
  launch.execution = logged.execution;
  launch.tells_all = mark.tells_all;
  if (IterationRecorder* const recorder = log_.recorder()) {
    recorder->launch(launch.execution, mark.name, mark.at_ns, mark.stalled_ns, false);
  }
  if (EventLog* const events = log_.events()) {
    events->launch_ended(0, mark.at_ns);
    events->launch_began(0, logged.row, log_.name_of(logged.row), mark.at_ns);
  }
  marked_ = issue(launch, logged.row).id;
  std::erase(ready_, launch.tag);
  marked_tells_all_ = mark.tells_all;
  Uses& uses = uses_of(launch.execution);
  if (mark.tells_all) {
    uses.clear();
  }
  for (const auto& [first, count] : uses) {
    engine_.note_uses(first, count);
  }
}

void HostLaunches::use_marked(const LaunchMark& mark) {
  engine_.note_accesses(latest_, mark.first_block, mark.block_count);
  const Space& space = engine_.space();
  IterationRecorder* const recorder = log_.recorder();
  if (recorder != nullptr && mark.first_block < space.block_slots()) {
    const AllocationId id = space.block(mark.first_block).allocation;
    if (space.is_live(id)) {
      recorder->access(id, bytes_in_use_(id), mark.writes);
    }
  }
  if (marked_tells_all_) {
    uses_of(latest_.execution).emplace_back(mark.first_block, mark.block_count);
  }
}

HostLaunches::Uses& HostLaunches::uses_of(ExecutionId execution) {
  if (execution >= uses_.size()) {
    uses_.resize(execution + std::size_t{1});
  }
  return uses_[execution];
}

void HostLaunches::about_to_use(BlockId first_block, std::uint32_t block_count) {
  take_marks();
  engine_.note_uses(first_block, block_count);
}

void HostLaunches::record_death(AllocationId id) {
  if (log_.recorder() != nullptr) {
    take_marks();
    log_.recorder()->died(id);
  }
}

}  // namespace spillway::host
