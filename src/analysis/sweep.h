// Sums over ranges of kernels: add an amount to a range at a time, read the totals once.
// Layer: analysis.
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"

namespace spillway {

// Bytes held during ranges of kernels. Adding is constant time, totals() linear in the kernels.
class Sweep {
 public:
  explicit Sweep(std::size_t kernels) : begins_(kernels + 1, 0), ends_(kernels + 1, 0) {}

  // Adds to kernels [begin, end); nothing where the range is empty. end must be at most the number
  // of kernels.
  void add(std::size_t begin, std::size_t end, Bytes bytes) {
    if (begin < end) {
      begins_[begin] += bytes;
      ends_[end] += bytes;
    }
  }
  [[nodiscard]] std::vector<Bytes> totals() const {
    std::vector<Bytes> totals(begins_.size() - 1);
    Bytes held = 0;
    for (std::size_t kernel = 0; kernel < totals.size(); ++kernel) {
      held = held + begins_[kernel] - ends_[kernel];
      totals[kernel] = held;
    }
    return totals;
  }

 private:
  std::vector<Bytes> begins_;
  std::vector<Bytes> ends_;
};

}  // namespace spillway
