// See idle_evictor.h.
#include "policy/habits/idle_evictor.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/grown_at.h"
#include "engine/launches/pending_uses.h"
#include "engine/memory/page_queues.h"
#include "engine/memory/space.h"

namespace spillway {

IdleEvictor::Habit::Last* IdleEvictor::Habit::known() {
  const auto found =
      std::find_if(last.begin(), last.end(), [this](const Last& it) { return it.use == used_by; });
  return used_by == kNoExecution || found == last.end() ? nullptr : &*found;
}

IdleEvictor::Habit& IdleEvictor::habit_of(AllocationId id) { return grown_at(habits_, id); }

void IdleEvictor::issued(const Launch& launch, const Control& control) {
  now_ = launch.seq;
  for (const Access& access : launch.accesses) {
    if (control.space().allocation(access.allocation).frame_bytes < kLeastBytes) {
      continue;
    }
    Habit& habit = habit_of(access.allocation);
    if (Habit::Last* const known = habit.known(); std::exchange(habit.gone, false) && known) {
      known->times = kWrong;  // it was not the last use
    }
    habit.used_by = launch.execution;
    habit.used = launch.seq;
  }
}

void IdleEvictor::ended(const Launch& launch, Control& control) {
  for (const Access& access : launch.accesses) {
    if (access.allocation >= habits_.size()) {
      continue;
    }
    Habit& habit = habits_[access.allocation];
    const Habit::Last* const known = habit.known();
    const Allocation& allocation = control.space().allocation(access.allocation);
    if (known == nullptr || known->times < kSurely || habit.gone ||
        !may_go(access.allocation, control)) {
      continue;
    }
    habit.gone = true;
    for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
      control.pre_evict(allocation.first_block + i, Tier::kHost);
    }
  }
}

bool IdleEvictor::may_go(AllocationId id, const Control& control) {
  const Allocation& allocation = control.space().allocation(id);
  const Bytes room_bytes = control.free_bytes(Tier::kDevice) +
                           control.queues().bytes(PageQueue::kUnused) +
                           control.queues().bytes(PageQueue::kDiscarded);
  if (!allocation.live || room_bytes > control.capacity_bytes(Tier::kDevice) / kRoomPart ||
      control.free_bytes(Tier::kHost) <
          allocation.frame_bytes + control.pre_evicting_bytes(Tier::kHost)) {
    return false;
  }
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const BlockId block = allocation.first_block + i;
    if (!control.evictable(block) || control.pending_uses().next_launch(block) != kNoLaunch) {
      return false;
    }
  }
  return true;
}

void IdleEvictor::dies(AllocationId id) {
  if (id >= habits_.size()) {
    return;
  }
  Habit& habit = habits_[id];
  Habit::Last* const known = habit.known();
  if (now_ - habit.used < kLong) {
    if (known != nullptr) {
      *known = {};
    }
  } else if (known != nullptr) {
    known->times = std::min(known->times + 1, kSurely);
  } else if (habit.used_by != kNoExecution) {
    *std::min_element(habit.last.begin(), habit.last.end(), [](const auto& a, const auto& b) {
      return std::abs(a.times) < std::abs(b.times);
    }) = {.use = habit.used_by, .times = 1};
  }
  habit.used_by = kNoExecution;
  habit.gone = false;
}

}  // namespace spillway
