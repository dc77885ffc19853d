// How a thread treats subnormal numbers and rounds: what torch.set_flush_denormal sets. Layer:
// near.
#pragma once

#include <xmmintrin.h>

#include <cstdint>

namespace spillway::near {

// Without the flags of what has happened.
inline std::uint32_t float_mode() { return _mm_getcsr() & ~0x3FU; }
inline void set_float_mode(std::uint32_t mode) { _mm_setcsr(mode); }

}  // namespace spillway::near
