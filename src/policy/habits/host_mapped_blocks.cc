// See host_mapped_blocks.h.
#include "policy/habits/host_mapped_blocks.h"

#include <algorithm>

#include "engine/memory/for_each_block.h"
#include "engine/memory/space.h"

namespace spillway {
namespace {

// What has been used so often in this way, and had to leave so often, will be and will have to
// again.
constexpr std::uint8_t kUses = 2;
constexpr std::uint8_t kTimesMadeToLeave = 2;
// So many of those that are leaving are looked at in one event.
constexpr int kLooksAtLeaving = 32;

void count(std::uint8_t& number, std::uint8_t most) {
  number = static_cast<std::uint8_t>(std::min<int>(number + 1, most));
}

}  // namespace

HostMappedBlocks::Habit& HostMappedBlocks::habit_of(BlockId block, const Control& control) {
  if (block >= habits_.size()) {
    habits_.resize(std::max<std::size_t>(control.space().block_slots(), block + std::size_t{1}));
  }
  return habits_[block];
}

bool HostMappedBlocks::had_better_be_host_mapped(const Habit& habit) {
  return habit.uses >= kUses && habit.times >= kTimesMadeToLeave && !habit.often;
}

void HostMappedBlocks::ended(const Launch& launch, Control& control) {
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    Habit& habit = habit_of(id, control);
    if (launch.sparse) {
      count(habit.uses, kUses);
      return;
    }
    habit.uses = 0;
    if (control.space().block(id).host_mapped) {
      habit.often = true;
      control.clear_host_mapped(id);
    }
  });
}

void HostMappedBlocks::leaves(BlockId block, const Control& control) {
  Habit& habit = habit_of(block, control);
  if (habit.uses >= kUses && !habit.leaving) {
    habit.leaving = true;
    leaving_.push_back(block);
  }
}

void HostMappedBlocks::bury(const Control& control) {
  for (const AllocationId id : dead_) {
    const Allocation& allocation = control.space().allocation(id);
    for (std::uint32_t i = 0; i < allocation.block_count && !allocation.packed; ++i) {
      if (const BlockId block = allocation.first_block + i; block < habits_.size()) {
        habits_[block] = {.leaving = habits_[block].leaving};
      }
    }
  }
  dead_.clear();
}

void HostMappedBlocks::advance(Control& control) {
  bury(control);
  for (int looks = 0; looks < kLooksAtLeaving && !leaving_.empty(); ++looks) {
    const BlockId id = leaving_.front();
    if (control.space().has_tenant(id) && control.space().block(id).evicting) {
      return;  // those behind it leave later
    }
    leaving_.pop_front();
    Habit& habit = habits_[id];
    habit.leaving = false;
    if (control.space().has_tenant(id) && !control.space().block(id).frames.has(Tier::kDevice)) {
      count(habit.times, kTimesMadeToLeave);
      if (had_better_be_host_mapped(habit)) {
        (void)control.set_host_mapped(id);
      }
    }
  }
}

}  // namespace spillway
