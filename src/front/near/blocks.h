// Tensors of many sizes as blocks of one: which elements of which tensor a block is. Layer: front,
// near.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "front/near/near.h"

namespace spillway::near {

// Elements of a block: what a thread takes at once. Measured (docs/near-memory.md, "Speed").
inline constexpr std::uint64_t kBlockElements = 16384;

class Blocks {
 public:
  explicit Blocks(std::span<const spillway_near_tensor> tensors) : tensors_(tensors) {
    ends_.reserve(tensors.size());
    for (const spillway_near_tensor& tensor : tensors) {
      count_ += (tensor.elements + kBlockElements - 1) / kBlockElements;
      ends_.push_back(count_);
    }
  }

  [[nodiscard]] std::size_t count() const { return count_; }

  template <class Work>  // work(tensor, begin, end)
  void visit(std::size_t block, const Work& work) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), block);
    const spillway_near_tensor& tensor = tensors_[static_cast<std::size_t>(end - ends_.begin())];
    const std::size_t first = end == ends_.begin() ? 0 : *(end - 1);
    const std::uint64_t begin = (block - first) * kBlockElements;
    work(tensor, begin, std::min(begin + kBlockElements, tensor.elements));
  }

 private:
  std::span<const spillway_near_tensor> tensors_;
  std::vector<std::size_t> ends_;
  std::size_t count_ = 0;
};

}  // namespace spillway::near
