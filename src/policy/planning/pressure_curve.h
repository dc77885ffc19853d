// Memory in use by slot of an iteration, and how much of what is above a limit an eviction takes
// away. Layer: policy.
// A tree over the ring of slots, a few of them to a leaf, whose nodes know the least and the most
// of their slots: an eviction changes whole nodes at once, and a question looks closer only where
// the curve crosses a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/units.h"

namespace spillway {

class PressureCurve {
 public:
  // bytes: in use, by slot. All sizes, here and later, are multiples of granularity_bytes, a power
  // of two; the limit need not be. weights: how much a byte above the limit counts in each slot.
  PressureCurve(const std::vector<Bytes>& bytes, Bytes limit_bytes, Bytes granularity_bytes,
                const std::vector<std::uint64_t>& weights);

  // Slots count on beyond the ring's end; a range is at most as long as the ring.
  void add(std::size_t first, std::size_t end, Bytes bytes) { change(first, end, units(bytes)); }
  void subtract(std::size_t first, std::size_t end, Bytes bytes) {
    change(first, end, -units(bytes));
  }
  [[nodiscard]] bool over_limit() const { return nodes_[1].most > 0; }
  // Whether a slot of the range would be above the limit if `bytes` more were in use.
  [[nodiscard]] bool over_limit_with(std::size_t first, std::size_t end, Bytes bytes) const;
  // How much of what is above the limit `bytes` less would take away, by weight: the very number
  // that adding up in doubles, slot by slot, gives.
  [[nodiscard]] double relief(std::size_t first, std::size_t end, Bytes bytes) const;
  // In use, by slot.
  [[nodiscard]] std::vector<Bytes> bytes() const;

 private:
  // What is above the limit in a node's slots, without what has been added to nodes above it. In
  // units of a power of two that divides all sizes: sums of products that stay below 2^53 of them
  // are exact in doubles, whatever the order.
  struct Node {
    std::int64_t least = kInfinite;
    std::int64_t most = -kInfinite;
    std::int64_t added = 0;      // to all of its slots; is in the others
    std::uint64_t weight = 0;    // of its slots together
    std::uint64_t weighted = 0;  // amounts by their weights, modulo 2^64
  };
  // Neither the least nor the most of anything.
  static constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max() / 2;
  struct Range {  // of slots
    std::size_t first;
    std::size_t end;
  };
  [[nodiscard]] std::int64_t units(Bytes bytes) const {
    return static_cast<std::int64_t>(bytes >> shift_);
  }
  void change(std::size_t first, std::size_t end, std::int64_t amount);
  void change(std::size_t node, Range all, Range changed, std::int64_t amount);
  void gather(std::size_t node);
  void gather_leaf(std::size_t node, std::size_t first);
  [[nodiscard]] std::uint64_t weight_of(std::size_t slot) const {
    return weight_before_[slot + 1] - weight_before_[slot];
  }
  [[nodiscard]] std::int64_t most_in(std::size_t node, Range all, Range asked,
                                     std::int64_t above) const;
  [[nodiscard]] std::uint64_t relief_in(std::size_t node, Range all, Range asked,
                                        std::int64_t above, std::int64_t amount) const;
  [[nodiscard]] std::int64_t amount_at(std::size_t slot) const;
  [[nodiscard]] std::uint64_t weight_in(Range range) const {
    return weight_before_[range.end] - weight_before_[range.first];
  }
  template <typename Visit>
  void in_ring(std::size_t first, std::size_t end, Visit visit) const;

  std::size_t slots_;
  std::size_t leaves_;
  Bytes limit_bytes_;
  unsigned shift_;                            // a unit is 2^shift_ bytes
  std::vector<Node> nodes_;                   // a node's children are 2n and 2n + 1, the root is 1
  std::vector<std::int64_t> amounts_;         // by slot, without what has been added to nodes
  std::vector<std::uint64_t> weight_before_;  // by slot; one more than slots
};

}  // namespace spillway
