// See given_up.h.
#include "policy/given_up.h"

#include <algorithm>

#include "engine/page_queues.h"
#include "engine/space.h"

namespace spillway {

GivenUp::Habit& GivenUp::habit_of(AllocationId id) {
  if (id >= habits_.size()) {
    habits_.resize(std::max(id + std::size_t{1}, 2 * habits_.size()));
  }
  return habits_[id];
}

void GivenUp::ended(const Launch& launch, Control& control) {
  spare_bytes_ = std::min(spare_bytes_, control.free_bytes(Tier::kDevice) +
                                            control.queues().bytes(PageQueue::kUnused) +
                                            control.queues().bytes(PageQueue::kDiscarded));
  for (const Access& access : launch.accesses) {
    Habit& habit = habit_of(access.allocation);
    if (habit.gone) {
      habit.gone = false;
      comes_back_ = true;
      const Bytes bytes = control.space().allocation(access.allocation).frame_bytes;
      if (bytes <= spare_bytes_) {  // in vain
        spare_bytes_ -= bytes;
        habit.goes_after = kNoExecution;
      }
    }
    habit.used_by = launch.execution;
    if (habit.goes_after == launch.execution && launch.execution != kNoExecution &&
        control.give_up(access.allocation)) {
      habit.gone = true;
      if (comes_back_) {
        comes_back_ = false;
        spare_bytes_ = kNotKnown;
      }
    }
  }
}

void GivenUp::leaves(AllocationId id) {
  Habit& habit = habit_of(id);
  habit.goes_after = habit.used_by;
  habit.gone = false;
}

}  // namespace spillway
