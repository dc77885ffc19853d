// Ranges of many sizes as blocks of one: which elements of which tensor a block is. Layer: near.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "near/near.h"

namespace spillway::near {

// Elements of a block: what a thread takes at once. Measured (docs/near-memory.md, "Speed").
inline constexpr std::uint64_t kBlockElements = 16384;

// Elements [begin, end) of a tensor. The first is a multiple of the grain of an update.
struct Range {
  spillway_near_tensor tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class Blocks {
 public:
  // The ranges must outlive it.
  explicit Blocks(std::span<const Range> ranges) : ranges_(ranges) {
    ends_.reserve(ranges.size());
    for (const Range& range : ranges) {
      count_ += (range.end - range.begin + kBlockElements - 1) / kBlockElements;
      ends_.push_back(count_);
    }
  }

  [[nodiscard]] std::size_t count() const { return count_; }

  template <class Work>  // work(tensor, begin, end)
  void visit(std::size_t block, const Work& work) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), block);
    const Range& range = ranges_[static_cast<std::size_t>(end - ends_.begin())];
    const std::size_t first = end == ends_.begin() ? 0 : *(end - 1);
    const std::uint64_t begin = range.begin + (block - first) * kBlockElements;
    work(range.tensor, begin, std::min(begin + kBlockElements, range.end));
  }

 private:
  std::span<const Range> ranges_;
  std::vector<std::size_t> ends_;
  std::size_t count_ = 0;
};

}  // namespace spillway::near
