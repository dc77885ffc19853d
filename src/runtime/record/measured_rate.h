// What a planner is told of a machine: rates as the run has met them so far. Layer: runtime.
#pragma once

#include "base/units.h"

namespace spillway {

inline constexpr double kAssumedStorageBytesPerS = 1e9;

// What `bytes` in `busy_ns` say; the assumed rate where that is less than tells anything.
inline double measured_bytes_per_s(Bytes bytes, TimeNs busy_ns, Bytes enough_bytes,
                                   double assumed_bytes_per_s) {
  return bytes < enough_bytes || busy_ns <= 0 ? assumed_bytes_per_s
                                              : static_cast<double>(bytes) / to_seconds(busy_ns);
}

}  // namespace spillway
