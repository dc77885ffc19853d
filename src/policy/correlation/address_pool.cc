// First fit from either end. See address_pool.h.
#include "policy/correlation/address_pool.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace spillway {

std::optional<Bytes> AddressPool::take_left(Bytes bytes) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [start, size] = *range;
    if (size >= bytes) {
      free_.erase(range);
      if (size > bytes) {
        free_.emplace(start + bytes, size - bytes);
      }
      return start;
    }
  }
  return std::nullopt;
}

std::optional<Bytes> AddressPool::take_right(Bytes bytes) {
  for (auto range = free_.rbegin(); range != free_.rend(); ++range) {
    if (range->second >= bytes) {
      range->second -= bytes;
      const Bytes start = range->first + range->second;
      if (range->second == 0) {
        free_.erase(range->first);
      }
      return start;
    }
  }
  return std::nullopt;
}

void AddressPool::give_back(Bytes start, Bytes bytes) {
  auto range = free_.emplace(start, bytes).first;
  const auto after = std::next(range);
  if (after != free_.end() && start + bytes == after->first) {
    range->second += after->second;
    free_.erase(after);
  }
  if (range != free_.begin()) {
    const auto before = std::prev(range);
    assert(before->first + before->second <= start);
    if (before->first + before->second == start) {
      before->second += range->second;
      free_.erase(range);
    }
  }
}

Bytes AddressPool::largest_free_bytes() const {
  Bytes largest = 0;
  for (const auto& [start, size] : free_) {
    largest = std::max(largest, size);
  }
  return largest;
}

}  // namespace spillway
