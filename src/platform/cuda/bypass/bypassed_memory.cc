// See bypassed_memory.h.
#include "platform/cuda/bypass/bypassed_memory.h"

#include "base/grown_at.h"

namespace spillway::cuda {

void BypassedMemory::lives(AllocationId id) {
  State& state = grown_at(state_, id);
  if (state == State::kDeadUnannounced) {
    state = State::kSettled;
    return;
  }
  state = State::kUnsettled;
  ++unsettled_;
}

bool BypassedMemory::ends(AllocationId id, State how) {
  State& state = state_[id];
  if (state == State::kSettled || state == State::kDeadUnannounced) {
    state = State::kDeadUnannounced;
    return false;
  }
  unsettled_ -= state == State::kUnsettled ? 1U : 0U;
  state = how;
  return true;
}

void BypassedMemory::settle(AllocationId id) {
  state_[id] = State::kSettled;
  --unsettled_;
}

std::vector<AllocationId> BypassedMemory::end() {
  std::vector<AllocationId> unannounced;
  for (AllocationId id = 0; id < state_.size(); ++id) {
    if (state_[id] == State::kSettled) {
      state_[id] = State::kUnsettled;
      ++unsettled_;
    } else if (state_[id] == State::kDeadUnannounced) {
      state_[id] = State::kDead;
      unannounced.push_back(id);
    }
  }
  return unannounced;
}

}  // namespace spillway::cuda
