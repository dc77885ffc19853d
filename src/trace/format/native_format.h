// The native trace format, versions 1 and 2: what reader and writer agree on. docs/traces.md
// explains it. Layer: trace.
#pragma once

#include <cstdint>
#include <string_view>

namespace spillway {

// Not text on purpose; damage by a conversion of line ends shows in the magic.
inline constexpr std::string_view kNativeMagic = "\x89SWT\r\n\x1a\n";
inline constexpr std::uint64_t kNativePreludeBytes = 12;

// 4 bytes after the magic, little-endian. What version 1 can say is written as version 1, so that
// programs that know no other read it, and the same trace stays the same file.
inline constexpr std::uint32_t kNativeVersion = 1;
inline constexpr std::uint32_t kNativeVersionWithKernelFlags = 2;

enum class RecordTag : std::uint8_t { kHeader = 1, kTensor = 2, kKernel = 3, kEnd = 4 };

// Flags of a tensor record.
inline constexpr std::uint64_t kPersistentFlag = 1;
inline constexpr std::uint64_t kScratchFlag = 2;
inline constexpr std::uint64_t kLifetimeFlag = 4;  // birth and death follow
inline constexpr std::uint64_t kAllTensorFlags = 7;

// Flags of a kernel record; version 1 has none.
inline constexpr std::uint64_t kSynchronizesFlag = 1;
inline constexpr std::uint64_t kAllKernelFlags = 1;

// Small numbers of either sign as small unsigned ones: 0, -1, 1, -2, ...
[[nodiscard]] constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63);
}
[[nodiscard]] constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1U) ^ (~(value & 1U) + 1U));
}

}  // namespace spillway
