#include "policy/prediction/launch_hash.h"

#include <bit>

namespace spillway {
namespace {

// Takes in 64 bits at a time. The two halves differ in seed, multiplier and order of operations, so
// that one colliding says nothing about the other.
class TwoHashes {
 public:
  void add(std::uint64_t word) {
    hash_.first = (std::rotl(hash_.first, 23) ^ word) * 0x9fb21c651e98df25ULL;
    hash_.first ^= hash_.first >> 32U;
    hash_.second = std::rotl(hash_.second + word * 0xd6e8feb86659fd93ULL, 41) * 5U + 0x52dce729U;
    hash_.second ^= hash_.second >> 29U;
  }
  // The length goes in as well, so that where the name ends is part of what is hashed.
  void add(std::string_view text) {
    add(text.size());
    while (!text.empty()) {
      const std::string_view part = text.substr(0, sizeof(std::uint64_t));
      std::uint64_t word = 0;
      for (std::size_t i = 0; i < part.size(); ++i) {
        word |= static_cast<std::uint64_t>(static_cast<unsigned char>(part[i])) << (8U * i);
      }
      add(word);
      text.remove_prefix(part.size());
    }
  }
  [[nodiscard]] LaunchHash finish() const {
    return {.first = avalanche(hash_.first), .second = avalanche(hash_.second)};
  }

 private:
  static std::uint64_t avalanche(std::uint64_t value) {
    value = (value ^ (value >> 31U)) * 0x7fb5d329728ea185ULL;
    value = (value ^ (value >> 27U)) * 0x81dadef4bc2dd44dULL;
    return value ^ (value >> 33U);
  }

  LaunchHash hash_{.first = 0x243f6a8885a308d3ULL, .second = 0x13198a2e03707344ULL};
};

}  // namespace

LaunchHash hash_launch(std::string_view kernel_name, std::span<const LaunchOperand> operands) {
  TwoHashes hashes;
  hashes.add(kernel_name);
  for (const LaunchOperand& operand : operands) {
    hashes.add(operand.allocation);
    hashes.add(operand.bytes);
  }
  return hashes.finish();
}

ExecutionId ExecutionIds::id_of(LaunchHash hash) {
  if (ids_.size() < kMost) {
    return ids_.try_emplace(hash, static_cast<ExecutionId>(ids_.size())).first->second;
  }
  const auto known = ids_.find(hash);
  return known != ids_.end() ? known->second : static_cast<ExecutionId>(hash.first % kMost);
}

}  // namespace spillway
