// See slot_pool.h.
#include "platform/common/storage/slot_pool.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace spillway {

std::size_t SlotPool::class_of(Bytes bytes) {
  assert(bytes > 0 && bytes <= kBlockBytes);
  const Bytes place_bytes = std::bit_ceil(std::max(bytes, kPageBytes));
  return static_cast<std::size_t>(std::countr_zero(place_bytes / kPageBytes));
}

// A chunk that is free as a whole, or a new one, is cut into places of this size.
bool SlotPool::cut_chunk(std::size_t size_class) {
  std::uint32_t chunk = 0;
  if (!whole_.empty()) {
    chunk = whole_.back();
    whole_.pop_back();
  } else if (chunks_.size() < chunks_max_) {
    chunk = static_cast<std::uint32_t>(chunks_.size());
    chunks_.emplace_back();
  } else {
    return false;
  }
  chunks_[chunk] = {.used = 0, .size_class = static_cast<std::uint8_t>(size_class)};
  const Bytes place_bytes = bytes_of(size_class);
  for (Bytes offset = kBlockBytes; offset > 0; offset -= place_bytes) {
    free_[size_class].push_back(chunk * kBlockBytes + offset - place_bytes);
  }
  return true;
}

std::optional<std::uint64_t> SlotPool::take(Bytes bytes) {
  const std::size_t size_class = class_of(bytes);
  std::vector<std::uint64_t>& free = free_[size_class];
  if (free.empty() && !cut_chunk(size_class)) {
    return std::nullopt;
  }
  const std::uint64_t offset = free.back();
  free.pop_back();
  ++chunks_[offset / kBlockBytes].used;
  return offset;
}

void SlotPool::give_back(std::uint64_t offset, Bytes bytes) {
  const std::size_t size_class = class_of(bytes);
  const auto index = static_cast<std::uint32_t>(offset / kBlockBytes);
  Chunk& chunk = chunks_[index];
  assert(chunk.used > 0 && chunk.size_class == size_class);
  std::vector<std::uint64_t>& free = free_[size_class];
  if (--chunk.used > 0) {
    free.push_back(offset);
    return;
  }
  if (size_class + 1 < kClasses) {
    std::erase_if(free, [&](std::uint64_t one) { return one / kBlockBytes == index; });
  }
  whole_.push_back(index);
}

}  // namespace spillway
