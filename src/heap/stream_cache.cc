// See stream_cache.h.
#include "heap/stream_cache.h"

#include <algorithm>

#include "base/grown_at.h"
#include "base/spread.h"

namespace spillway {

StreamCache::Stack* StreamCache::first_place(Stream stream, Bytes size) {
  return &stacks_[spread(size ^ (reinterpret_cast<std::uintptr_t>(stream) << 8U), kBits)];
}

StreamCache::Stack* StreamCache::find(Stream stream, Bytes size) {
  Stack* const first = first_place(stream, size);
  for (Stack* at = first; at != first + kPlaces && at->size != 0; ++at) {
    if (at->size == size && at->stream == stream) {
      return at;
    }
  }
  return nullptr;
}

StreamCache::Stack* StreamCache::make(Stream stream, Bytes size) {
  Stack* const first = first_place(stream, size);
  Stack* const place =
      std::find_if(first, first + kPlaces, [](const Stack& it) { return it.count == 0; });
  if (place == first + kPlaces) {
    return nullptr;
  }
  if (place->size == 0) {
    known_.push_back(static_cast<std::uint32_t>(place - stacks_.data()));
  }
  *place = {.stream = stream, .size = size};
  return place;
}

bool StreamCache::put(Stream stream, Bytes size, Slot slot) {
  Stack* stack = find(stream, size);
  if (stack == nullptr) {
    stack = make(stream, size);
  }
  if (stack == nullptr) {
    return false;
  }
  grown_at(below_, slot) = stack->top;
  stack->top = slot;
  ++stack->count;
  bytes_ += size;
  return true;
}

std::optional<StreamCache::Slot> StreamCache::take(Stream stream, Bytes size) {
  Stack* const stack = find(stream, size);
  if (stack == nullptr || stack->count == 0) {
    return std::nullopt;
  }
  const Slot slot = stack->top;
  stack->top = below_[slot];
  --stack->count;
  bytes_ -= size;
  return slot;
}

std::vector<StreamCache::Taken> StreamCache::take_all() {
  std::vector<Taken> all;
  for (const std::uint32_t at : known_) {
    Stack& stack = stacks_[at];
    for (; stack.count > 0; --stack.count) {
      all.push_back({.slot = stack.top, .stream = stack.stream});
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
