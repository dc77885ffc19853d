// See given_up.h.
#include "policy/habits/given_up.h"

#include <algorithm>
#include <utility>

#include "base/grown_at.h"
#include "engine/memory/page_queues.h"
#include "engine/memory/space.h"

namespace spillway {
namespace {

// Of those that could not go so many are looked at again; others lose nothing but their turn.
constexpr std::size_t kMostLater = 64;

bool holds_something(AllocationId id, const Control& control) {
  const Allocation& allocation = control.space().allocation(id);
  return allocation.live &&
         control.space().block(allocation.first_block).contents == Contents::kLive;
}

Bytes bytes_on_device(AllocationId id, const Control& control) {
  const Allocation& allocation = control.space().allocation(id);
  Bytes bytes = 0;
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const Block& block = control.space().block(allocation.first_block + i);
    bytes += block.frames.has(Tier::kDevice) ? block.bytes : 0;
  }
  return bytes;
}

}  // namespace

GivenUp::Habit& GivenUp::habit_of(AllocationId id) { return grown_at(habits_, id); }

void GivenUp::note_spare(const Control& control, Bytes more_bytes) {
  spare_bytes_ = std::min(spare_bytes_, more_bytes + control.free_bytes(Tier::kDevice) +
                                            control.queues().bytes(PageQueue::kUnused) +
                                            control.queues().bytes(PageQueue::kDiscarded));
}

void GivenUp::issued(const Launch& launch) {
  if (gone_ == 0) {
    return;
  }
  for (const Access& access : launch.accesses) {
    Habit& habit = habit_of(access.allocation);
    habit.returns |= habit.gone;
  }
}

void GivenUp::admitted(const Launch& launch, const Control& control) {
  if (gone_ == 0) {
    return;
  }
  // What comes back with this launch and has its frames already was spare until now.
  std::vector<AllocationId> back;
  Bytes back_bytes = 0;
  for (const Access& access : launch.accesses) {
    Habit& habit = habit_of(access.allocation);
    if (!habit.gone) {
      continue;
    }
    habit.gone = habit.returns = false;
    --gone_;
    back.push_back(access.allocation);
    back_bytes += bytes_on_device(access.allocation, control);
  }
  note_spare(control, back_bytes);
  for (const AllocationId id : back) {
    if (const Bytes bytes = control.space().allocation(id).frame_bytes; bytes <= spare_bytes_) {
      spare_bytes_ -= bytes;
      Habit& habit = habit_of(id);
      habit.goes_after[habit.goes_after[0] == habit.used_by ? 0 : 1] = kNoExecution;
    }
  }
}

void GivenUp::ended(const Launch& launch, Control& control) {
  if (gone_ > 0) {
    note_spare(control, 0);
  }
  for (const Access& access : launch.accesses) {
    habit_of(access.allocation).used_by = launch.execution;
  }
  for (const AllocationId id : std::exchange(later_, {})) {
    go(id, control);
  }
  for (const Access& access : launch.accesses) {
    go(access.allocation, control);
  }
}

// Without having been asked for again.
void GivenUp::dies(AllocationId id) {
  Habit& habit = habit_of(id);
  if (habit.gone && !habit.returns) {
    habit.gone = false;
    --gone_;
  }
}

void GivenUp::go(AllocationId id, Control& control) {
  Habit& habit = habit_of(id);
  if (habit.gone || !habit.goes()) {
    return;
  }
  habit.gone = control.give_up(id);
  if (habit.gone && gone_++ == 0) {
    spare_bytes_ = kNotKnown;
  }
  if (!habit.gone && holds_something(id, control) && later_.size() < kMostLater &&
      std::find(later_.begin(), later_.end(), id) == later_.end()) {
    later_.push_back(id);
  }
}

void GivenUp::leaves(AllocationId id) {
  Habit& habit = habit_of(id);
  if (!habit.goes()) {
    habit.goes_after = {habit.used_by, habit.goes_after[0]};
  }
}

}  // namespace spillway
