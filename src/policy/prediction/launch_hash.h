// When two launches are the same kernel again: DeepUM's table of hashes of kernel names and
// arguments (section 3.1). Layer: policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>

#include "base/ids.h"
#include "base/units.h"

namespace spillway {

// An argument that points to memory. Scalars that change from one iteration to the next (a learning
// rate, a seed) must stay out, or the kernel never repeats.
struct LaunchOperand {
  std::uint64_t allocation = 0;
  Bytes bytes = 0;
};

// 128 bits of xxHash (XXH3), standing for the whole key.
struct LaunchHash {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend bool operator==(const LaunchHash&, const LaunchHash&) = default;
};

// The same on every machine. The order of the operands counts.
[[nodiscard]] LaunchHash hash_launch(std::string_view kernel_name,
                                     std::span<const LaunchOperand> operands);

// Gives launches with equal hashes equal execution ids, dense from 0 in order of first appearance.
// A collision of the first hash is settled by the second, so no keys are kept. Two different
// launches among n would share an id only if all 128 bits agree: about n^2 / 2^129, that is 2^-107
// for the 2,300 kernels of a large network; the price would be a wrong prefetch, never wrong data.
// A program whose launches never repeat must not fill memory: behind the first kMost the new ones
// share their ids. Not safe for concurrent use.
class ExecutionIds {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 18U;
  ExecutionId id_of(LaunchHash hash);
  [[nodiscard]] std::size_t size() const { return ids_.size(); }

 private:
  struct FirstHash {
    std::size_t operator()(const LaunchHash& hash) const {
      return static_cast<std::size_t>(hash.first);
    }
  };
  std::unordered_map<LaunchHash, ExecutionId, FirstHash> ids_;
};

}  // namespace spillway
