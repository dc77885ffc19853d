// Where in an array of a power of two places something is looked for: numbers that differ by
// little, or in their high bits only, go to places far apart. Layer: base.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway {

// In [0, 2^bits); `bits` from 1 to 63.
[[nodiscard]] constexpr std::size_t spread(std::uint64_t number, int bits) {
  constexpr std::uint64_t kTimes = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio
  return static_cast<std::size_t>((number * kTimes) >> (64 - bits));
}

}  // namespace spillway
