// Which blocks launches should use in host memory, over the link, instead of moving them: those of
// which each launch uses only a little, such as tables that are looked up. Layer: policy.
// docs/cuda.md.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/policy.h"

namespace spillway {

class HostMappedBlocks {
 public:
  void ended(const Launch& launch, Control& control);
  // The block was chosen to make way.
  void leaves(BlockId block, const Control& control);
  // What lives in the allocation is dead behind what has been issued.
  void dies(AllocationId id) { dead_.push_back(id); }
  // Those that have left and had better not come back become host-mapped.
  void advance(Control& control);

 private:
  // Of a block, by its number, since what lives there was born.
  struct Habit {
    std::uint8_t uses = 0;   // in a row by launches that use only a little of it
    std::uint8_t times = 0;  // that it has left after those
    bool leaving = false;    // in leaving_
    bool often = false;      // it was host-mapped, and launches used all of it
  };
  Habit& habit_of(BlockId block, const Control& control);
  void bury(const Control& control);
  [[nodiscard]] static bool had_better_be_host_mapped(const Habit& habit);

  std::vector<Habit> habits_;
  std::vector<AllocationId> dead_;
  std::deque<BlockId> leaving_;  // that may become host-mapped when they have left
};

}  // namespace spillway
