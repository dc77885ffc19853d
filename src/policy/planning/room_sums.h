// Amounts by slot, and how many slots in a row it takes to have so much. Layer: policy.
// A tree of sums: an answer takes a few steps however long the run is. What it says about amounts
// that lie within its rounding of the one asked for is left open, for who can add up one by one.
#pragma once

#include <cstddef>
#include <vector>

namespace spillway {

class RoomSums {
 public:
  // No amount may be negative.
  explicit RoomSums(const std::vector<double>& amounts);

  void set(std::size_t slot, double amount);

  // Of the slots from `first` on in rising order, or from `end` - 1 on in falling order, the one
  // with which their sum reaches `wanted`; size() where it never does. `lacking` is what it lacked
  // before that slot, or lacks after all of them.
  struct Reached {
    std::size_t slot;
    double lacking;
  };
  [[nodiscard]] Reached rising(std::size_t first, double wanted) const;
  [[nodiscard]] Reached falling(std::size_t end, double wanted) const;

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::size_t leaves_ = 1;    // a power of two
  std::vector<double> sums_;  // a node's children are 2n and 2n + 1, the root is 1
};

}  // namespace spillway
