// See quiet_memory.h.
#include "platform/cuda/quiet_memory.h"

#include <algorithm>

namespace spillway::cuda {

void QuietMemory::lives(AllocationId id) {
  if (id >= state_.size()) {
    state_.resize(std::max(id + std::size_t{1}, 2 * state_.size()), State::kNone);
  }
  State& state = state_[id];
  if (state == State::kDeadUntold) {
    state = State::kSettled;
    return;
  }
  state = State::kUnsettled;
  ++unsettled_;
}

bool QuietMemory::ends(AllocationId id, State how) {
  State& state = state_[id];
  if (state == State::kSettled || state == State::kDeadUntold) {
    state = State::kDeadUntold;
    return false;
  }
  unsettled_ -= state == State::kUnsettled ? 1U : 0U;
  state = how;
  return true;
}

void QuietMemory::settle(AllocationId id) {
  state_[id] = State::kSettled;
  --unsettled_;
}

std::vector<AllocationId> QuietMemory::end() {
  std::vector<AllocationId> untold;
  for (AllocationId id = 0; id < state_.size(); ++id) {
    if (state_[id] == State::kSettled) {
      state_[id] = State::kUnsettled;
      ++unsettled_;
    } else if (state_[id] == State::kDeadUntold) {
      state_[id] = State::kDead;
      untold.push_back(id);
    }
  }
  return untold;
}

}  // namespace spillway::cuda
