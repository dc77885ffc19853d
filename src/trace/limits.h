// What no trace exceeds, whatever a file says. Layer: trace.
//
// The limits are absolute, so that a hostile file of a few kilobytes cannot make a reader use more
// memory than a (very) large honest one would. They are part of both file formats
// (docs/traces.md).
#pragma once

#include <cstdint>

#include "base/units.h"

namespace spillway {

inline constexpr std::uint64_t kMaxTensors = 1ULL << 22U;
inline constexpr std::uint64_t kMaxKernels = 1ULL << 22U;
inline constexpr std::uint64_t kMaxAccesses = 1ULL << 26U;       // reads and writes of all kernels
inline constexpr std::uint64_t kMaxTextBytes = 64 * kKiB;        // one name
inline constexpr std::uint64_t kMaxTotalTextBytes = 256 * kMiB;  // all kernel names
inline constexpr Bytes kMaxTensorBytes = 1ULL << 50U;
inline constexpr TimeNs kMaxDurationNs = TimeNs{1} << 53U;  // 104 days

// Imported files say more than a trace keeps: operands of operators that become no kernel, values
// of a pickle. So much of each is held at a time.
inline constexpr std::uint64_t kMaxImportedInputs = 1ULL << 24U;
inline constexpr std::uint64_t kMaxPickledValues = 1ULL << 24U;

}  // namespace spillway
