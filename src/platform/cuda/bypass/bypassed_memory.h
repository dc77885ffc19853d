// Which allocations bypassed launches may use: those that have all of their memory on the device
// and keep it. Layer: platform, cuda. docs/cuda.md. Knows allocations by number only. With the
// platform's lock held.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/types.h"

namespace spillway::cuda {

class BypassedMemory {
 public:
  // --- What becomes of allocations, at all times

  // It has been allocated, or is used again.
  void lives(AllocationId id);
  // The program has freed it, or does not need its contents (`lives` before it is used again).
  // False: bypassed launches may still use it, so the engine must not hear of the death yet.
  [[nodiscard]] bool freed(AllocationId id) { return ends(id, State::kNone); }
  [[nodiscard]] bool retired(AllocationId id) { return ends(id, State::kDead); }

  // --- In bypass mode

  // Has its memory, which stays from now on until `end`.
  void settle(AllocationId id);
  [[nodiscard]] bool settled(AllocationId id) const { return state_[id] == State::kSettled; }
  // Lives, and is not settled: how many there are.
  [[nodiscard]] std::uint32_t unsettled() const { return unsettled_; }
  [[nodiscard]] bool is_unsettled(AllocationId id) const { return state_[id] == State::kUnsettled; }
  // The deaths that were not told, of what is still dead.
  [[nodiscard]] std::vector<AllocationId> end();
  // Each that was ever settled since the last `end` and has not been freed: alive, or dead
  // unannounced.
  template <typename Visit>
  void for_each_settled(const Visit& visit) const {
    for (AllocationId id = 0; id < state_.size(); ++id) {
      if (state_[id] == State::kSettled || state_[id] == State::kDeadUnannounced) {
        visit(id);
      }
    }
  }
  // Each that lives and is not settled, which `visit` may change.
  template <typename Visit>
  void for_each_unsettled(const Visit& visit) const {
    for (AllocationId id = 0; id < state_.size(); ++id) {
      if (state_[id] == State::kUnsettled) {
        visit(id);
      }
    }
  }

 private:
  enum class State : std::uint8_t { kNone, kUnsettled, kSettled, kDead, kDeadUnannounced };
  [[nodiscard]] bool ends(AllocationId id, State how);

  std::vector<State> state_;  // by allocation
  std::uint32_t unsettled_ = 0;
};

}  // namespace spillway::cuda
