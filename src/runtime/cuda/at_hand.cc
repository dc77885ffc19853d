// See at_hand.h.
#include "runtime/cuda/at_hand.h"

#include <algorithm>

namespace spillway {

AtHand::Stack* AtHand::find(Order order, Bytes size) {
  constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio
  const std::uint64_t key = size ^ (reinterpret_cast<std::uintptr_t>(order) << 8U);
  Stack* const first = &stacks_[(key * kSpread) >> (64 - kBits)];
  for (Stack* at = first; at != first + kPlaces; ++at) {
    if (at->size == 0 || (at->size == size && at->order == order)) {
      return at;
    }
  }
  return nullptr;
}

bool AtHand::put(Order order, Bytes size, Slot slot) {
  Stack* const stack = find(order, size);
  if (stack == nullptr) {
    return false;
  }
  if (stack->size == 0) {
    stack->order = order;
    stack->size = size;
    known_.push_back(static_cast<std::uint32_t>(stack - stacks_.data()));
  }
  if (slot >= below_.size()) {
    below_.resize(std::max(slot + std::size_t{1}, 2 * below_.size()));
  }
  below_[slot] = stack->top;
  stack->top = slot;
  ++stack->count;
  bytes_ += size;
  return true;
}

std::optional<AtHand::Slot> AtHand::take(Order order, Bytes size) {
  Stack* const stack = find(order, size);
  if (stack == nullptr || stack->count == 0) {
    return std::nullopt;
  }
  const Slot slot = stack->top;
  stack->top = below_[slot];
  --stack->count;
  bytes_ -= size;
  return slot;
}

std::vector<AtHand::Slot> AtHand::take_all() {
  std::vector<Slot> all;
  for (const std::uint32_t at : known_) {
    Stack& stack = stacks_[at];
    for (; stack.count > 0; --stack.count) {
      all.push_back(stack.top);
      stack.top = below_[stack.top];
    }
    stack = {};
  }
  known_.clear();
  bytes_ = 0;
  return all;
}

}  // namespace spillway
