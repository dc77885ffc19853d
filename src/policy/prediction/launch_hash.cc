#include "policy/prediction/launch_hash.h"

#define XXH_INLINE_ALL  // nothing is linked
#include <xxhash.h>

namespace spillway {

// The name's first half is the seed for the operands. Names that agree in it differ in the second.
LaunchHash hash_launch(std::string_view kernel_name, std::span<const LaunchOperand> operands) {
  const XXH128_hash_t name = XXH3_128bits(kernel_name.data(), kernel_name.size());
  const XXH128_hash_t all =
      XXH3_128bits_withSeed(operands.data(), operands.size_bytes(), name.low64);
  return {.first = all.low64, .second = all.high64 ^ name.high64};
}

ExecutionId ExecutionIds::id_of(LaunchHash hash) {
  if (ids_.size() < kMost) {
    return ids_.try_emplace(hash, static_cast<ExecutionId>(ids_.size())).first->second;
  }
  const auto known = ids_.find(hash);
  return known != ids_.end() ? known->second : static_cast<ExecutionId>(hash.first % kMost);
}

}  // namespace spillway
