// What some device memory holds, as words that are compared: how the platform asks for them. Layer:
// platform, cuda. The kernel that makes them is the interposer's (front/cuda/fingerprint_kernel.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/units.h"
#include "platform/cuda/driver_types.h"

namespace spillway::cuda {

// Of one fingerprint.
inline constexpr std::size_t kFingerprintWords = 256;
// Puts one on a stream of the current context; `to` is pinned memory. The words are the same for
// the same bytes, and for others but once in 2^64 not.
using PutFingerprint =
    std::function<CuResult(CuStream stream, CuAddress from, Bytes bytes, std::uint64_t* to)>;

}  // namespace spillway::cuda
