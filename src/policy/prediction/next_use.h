// When each tensor is used next, as the program moves through the iteration. Layer: policy.
// What a planned program knows and a pager does not: the best victim is the one that is needed
// last.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace spillway {

class NextUse {
 public:
  explicit NextUse(const Trace& trace);

  // The kernel at `position` begins; positions go around the iteration.
  void advance(KernelIndex position);

  // Tensors by the launch of their next use, counted from the first: the current one for an operand
  // of the current kernel. What is never used comes last.
  using Order = std::set<std::pair<std::uint64_t, TensorId>>;
  [[nodiscard]] const Order& order() const { return order_; }
  // The current launch, counted likewise.
  [[nodiscard]] std::uint64_t now() const { return iteration_ * operands_.size() + position_; }

 private:
  void update(TensorId id);

  std::vector<std::vector<KernelIndex>> uses_;   // by tensor, ascending
  std::vector<std::vector<TensorId>> operands_;  // by kernel
  std::vector<std::uint64_t> next_;              // by tensor: launch number
  Order order_;
  std::uint64_t iteration_ = 0;
  KernelIndex position_ = 0;
};

}  // namespace spillway
