// A set of allocations. Layer: platform, cuda.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/ids.h"

namespace spillway::cuda {

class AllocationSet {
 public:
  [[nodiscard]] bool has(AllocationId id) const { return id < all_.size() && all_[id]; }
  void add(AllocationId id) {
    all_.resize(std::max(all_.size(), id + std::size_t{1}));
    all_[id] = true;
  }
  void remove(AllocationId id) {
    if (id < all_.size()) {
      all_[id] = false;
    }
  }
  void clear() { all_.clear(); }

 private:
  std::vector<bool> all_;  // by allocation
};

}  // namespace spillway::cuda
