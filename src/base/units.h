// Bytes and time. All times are nanoseconds and all sizes bytes, and names say so.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"

namespace spillway {

using Bytes = std::uint64_t;
using TimeNs = std::int64_t;

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kGiB = 1024 * kMiB;
inline constexpr Bytes kTiB = 1024 * kGiB;

inline constexpr TimeNs kNsPerUs = 1'000;
inline constexpr TimeNs kNsPerMs = 1'000'000;
inline constexpr TimeNs kNsPerS = 1'000'000'000;
inline constexpr TimeNs kForever = std::numeric_limits<TimeNs>::max();

// A page is the smallest unit that tiers account in; a block is the unit of residency (2 MiB, 512
// pages, the "UM block" of DeepUM section 2.3).
inline constexpr Bytes kPageBytes = 4 * kKiB;
inline constexpr Bytes kBlockBytes = 2 * kMiB;

[[nodiscard]] constexpr Bytes round_up(Bytes value, Bytes multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
[[nodiscard]] constexpr double to_seconds(TimeNs time_ns) {
  return static_cast<double>(time_ns) / static_cast<double>(kNsPerS);
}
[[nodiscard]] constexpr double to_us(TimeNs time_ns) {
  return static_cast<double>(time_ns) / static_cast<double>(kNsPerUs);
}

// "40GiB", "1.5 TiB", "15.754 GB", "4096": binary and decimal suffixes, a bare number is bytes.
// Fails with kInvalidInput on anything else, on negative and on absurd (> 2^60) values.
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);
// "12.5 GiB"; three significant digits, binary suffix.
[[nodiscard]] std::string format_bytes(Bytes bytes);
// "7.29 s", "45 us"; three significant digits.
[[nodiscard]] std::string format_time(TimeNs time_ns);

}  // namespace spillway
