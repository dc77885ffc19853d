// See deferred_frees.h.
#include "engine/memory/deferred_frees.h"

#include <algorithm>
#include <cassert>

#include "engine/broken.h"

namespace spillway {

bool DeferredFrees::end_use(AllocationId id, Epoch epoch) {
  State& state = states_[id];
  if (epoch == state.epoch) {
    assert(state.uses > 0);
    --state.uses;
    return false;
  }
  std::deque<Closed>& closed = pending_.at(id);
  const Epoch oldest = state.epoch - closed.size();
  assert(epoch >= oldest && closed[epoch - oldest].uses > 0);
  --closed[epoch - oldest].uses;
  return closed.front().uses == 0;
}

bool DeferredFrees::dies_after(AllocationId id, Epoch epoch) const {
  if (!waits(id) || epoch >= states_[id].epoch) {
    return false;
  }
  const std::deque<Closed>& closed = pending_.at(id);
  const Epoch oldest = states_[id].epoch - closed.size();
  return std::any_of(
      closed.begin() + static_cast<std::ptrdiff_t>(std::max(epoch, oldest) - oldest), closed.end(),
      [](const Closed& one) { return one.remark.whole || one.remark.kind == Remark::Kind::kFree; });
}

void DeferredFrees::add(const Remark& remark) {
  State& state = states_[remark.allocation];
  std::deque<Closed>& closed = pending_[remark.allocation];
  if (!closed.empty() && state.uses == 0 && closed.back().remark == remark) {
    return;
  }
  closed.push_back({.remark = remark, .uses = state.uses});
  state.uses = 0;
  state.waiting = true;
  ++state.epoch;
}

std::optional<DeferredFrees::Due> DeferredFrees::take(AllocationId id) {
  if (!waits(id)) {
    return std::nullopt;
  }
  State& state = states_[id];
  std::deque<Closed>& closed = pending_.at(id);
  if (closed.front().uses > 0) {
    return std::nullopt;
  }
  const Due due{.remark = closed.front().remark, .epoch = state.epoch - closed.size()};
  closed.pop_front();
  if (closed.empty()) {
    pending_.erase(id);
    state.waiting = false;
  }
  return due;
}

void DeferredFrees::forget(AllocationId id) {
  if (id < states_.size()) {
    assert(!busy(id));
    states_[id] = {};
  }
}

Status DeferredFrees::check() const {
  for (AllocationId id = 0; id < states_.size(); ++id) {
    const auto found = pending_.find(id);
    if (states_[id].waiting != (found != pending_.end())) {
      return broken("something waits to be said of an allocation that does not know of it");
    }
    if (found != pending_.end() && (found->second.empty() || found->second.front().uses == 0)) {
      return broken("what was said of an allocation is due and has not taken effect");
    }
  }
  return {};
}

}  // namespace spillway
