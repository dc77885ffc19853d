#include "platform/cuda/recompute/kernel_kinds.h"

#include <cstddef>

namespace spillway::cuda {

bool KernelKind::is_worth_it() const {
  constexpr std::uint64_t kTries = 16;
  constexpr std::uint64_t kTriesForUse = 8;
  constexpr std::uint64_t kOnceIn = 64;
  return gone < kTries + kTriesForUse * useful || left_alone % kOnceIn == kOnceIn - 1;
}

const KernelKind& KernelKinds::of(std::uint64_t kind) const {
  static const KernelKind unknown;
  const auto found = kinds_.find(kind);
  return found == kinds_.end() ? unknown : found->second;
}

KernelKind& KernelKinds::learn(std::uint64_t kind) {
  constexpr std::size_t kMost = 4096;
  if (kinds_.size() >= kMost && !kinds_.contains(kind)) {
    kinds_.clear();
  }
  return kinds_[kind];
}

bool KernelKinds::may_try() const {
  constexpr std::uint64_t kTrials = 256;
  constexpr std::uint64_t kUsesForTrial = 4;
  return tried_ < kTrials + given_up_ / kUsesForTrial;
}

}  // namespace spillway::cuda
