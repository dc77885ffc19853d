// Keeping tensors sorted by their next use. See next_use.h.
#include "policy/prediction/next_use.h"

#include <algorithm>
#include <limits>

namespace spillway {

NextUse::NextUse(const Trace& trace)
    : uses_(trace.tensors.size()), operands_(trace.kernels.size()), next_(trace.tensors.size()) {
  for (KernelIndex index = 0; index < trace.kernels.size(); ++index) {
    for (const auto* list : {&trace.kernels[index].reads, &trace.kernels[index].writes}) {
      for (const TensorId id : *list) {
        if (uses_[id].empty() || uses_[id].back() != index) {
          uses_[id].push_back(index);
          operands_[index].push_back(id);
        }
      }
    }
  }
  for (TensorId id = 0; id < next_.size(); ++id) {
    next_[id] = uses_[id].empty() ? std::numeric_limits<std::uint64_t>::max() : uses_[id].front();
    order_.emplace(next_[id], id);
  }
}

// The operands of the kernel that ends are used again later; nothing else changes.
void NextUse::advance(KernelIndex position) {
  const KernelIndex ended = position_;
  if (position < position_) {
    ++iteration_;
  }
  position_ = position;
  for (const TensorId id : operands_[ended]) {
    update(id);
  }
  for (const TensorId id : operands_[position]) {
    update(id);
  }
}

void NextUse::update(TensorId id) {
  const auto later = std::lower_bound(uses_[id].begin(), uses_[id].end(), position_);
  const std::uint64_t next = later != uses_[id].end()
                                 ? iteration_ * operands_.size() + *later
                                 : (iteration_ + 1) * operands_.size() + uses_[id].front();
  if (next == next_[id]) {
    return;
  }
  order_.erase({next_[id], id});
  next_[id] = next;
  order_.emplace(next, id);
}

}  // namespace spillway
