// Allocations whose contents a launch can recompute, in the order in which the platform said so.
// Layer: engine. docs/cuda.md. Only the platform knows that launch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/types.h"

namespace spillway {

// Whether so much may be read to make so much again: what must be there for it may have to be
// brought for it alone.
[[nodiscard]] constexpr bool worth_reading(Bytes read_bytes, Bytes made_bytes) {
  constexpr Bytes kMostTimes = 2;
  constexpr Bytes kMorePart = 16;
  return read_bytes <= kMostTimes * made_bytes + made_bytes / kMorePart;
}

// What a matrix product reads of at most so much is copied beside it, for it dies early.
inline constexpr Bytes kMostCopiedBytes = 64 * kKiB;
// The largest workspace of a product that is made again.
inline constexpr Bytes kMostWorkspaceBytes = 32 * kMiB;

class Recomputable {
 public:
  void add(AllocationId id) {
    if (!has(id)) {
      listed_.resize(std::max(listed_.size(), id + std::size_t{1}));
      listed_[id] = true;
      order_.push_back(id);
    }
  }
  void remove(AllocationId id) {
    if (has(id)) {
      listed_[id] = false;
      order_.erase(std::find(order_.begin(), order_.end(), id));
    }
  }
  [[nodiscard]] bool has(AllocationId id) const { return id < listed_.size() && listed_[id]; }
  // The first that `may`, of the first few: those behind are used soon.
  template <typename May>
  [[nodiscard]] AllocationId first(const May& may) const {
    constexpr std::size_t kLookedAt = 64;
    const auto end =
        order_.begin() + static_cast<std::ptrdiff_t>(std::min(kLookedAt, order_.size()));
    const auto found = std::find_if(order_.begin(), end, may);
    return found == end ? kNoAllocation : *found;
  }

 private:
  std::vector<bool> listed_;         // by allocation
  std::vector<AllocationId> order_;  // oldest first
};

}  // namespace spillway
