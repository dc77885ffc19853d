// See at_hand.h.
#include "runtime/cuda/at_hand.h"

#include <algorithm>

#include "base/spread.h"

namespace spillway {

AtHand::Stack* AtHand::first_place(Order order, Bytes size) {
  return &stacks_[spread(size ^ (reinterpret_cast<std::uintptr_t>(order) << 8U), kBits)];
}

AtHand::Stack* AtHand::find(Order order, Bytes size) {
  Stack* const first = first_place(order, size);
  for (Stack* at = first; at != first + kPlaces && at->size != 0; ++at) {
    if (at->size == size && at->order == order) {
      return at;
    }
  }
  return nullptr;
}

AtHand::Stack* AtHand::make(Order order, Bytes size) {
  Stack* const first = first_place(order, size);
  Stack* const place =
      std::find_if(first, first + kPlaces, [](const Stack& it) { return it.count == 0; });
  if (place == first + kPlaces) {
    return nullptr;
  }
  if (place->size == 0) {
    known_.push_back(static_cast<std::uint32_t>(place - stacks_.data()));
  }
  *place = {.order = order, .size = size};
  return place;
}

bool AtHand::put(Order order, Bytes size, Slot slot) {
  Stack* stack = find(order, size);
  if (stack == nullptr) {
    stack = make(order, size);
  }
  if (stack == nullptr) {
    return false;
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

std::vector<AtHand::Taken> AtHand::take_all() {
  std::vector<Taken> all;
  for (const std::uint32_t at : known_) {
    Stack& stack = stacks_[at];
    for (; stack.count > 0; --stack.count) {
      all.push_back({.slot = stack.top, .order = stack.order});
      stack.top = below_[stack.top];
    }
    stack = {};
  }
  known_.clear();
  bytes_ = 0;
  std::reverse(all.begin(), all.end());
  return all;
}

}  // namespace spillway
