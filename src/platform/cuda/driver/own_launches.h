// Launches of our kernels among the program's, as the platform asks for them. Layer: platform,
// cuda. The kernels are the interposer's (interpose/cuda/kernels/own_kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/units.h"
#include "platform/cuda/driver/driver_types.h"

namespace spillway::cuda {

// Of one fingerprint.
inline constexpr std::size_t kFingerprintWords = 256;

// Put on a stream of the current context.
struct OwnLaunches {
  // What some memory holds: the words are the same for the same bytes, and for others but once in
  // 2^64 not. `to` is pinned memory.
  std::function<CuResult(CuStream stream, CuAddress from, Bytes bytes, std::uint64_t* to)>
      fingerprint;
  // The pattern again and again.
  std::function<CuResult(CuStream stream, CuAddress to, Bytes bytes, std::uint32_t pattern)> fill;
};

}  // namespace spillway::cuda
