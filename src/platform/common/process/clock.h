// The clock of a run: what times on the host are taken from. Layer: platform, common.
#pragma once

#include <chrono>

#include "base/units.h"

namespace spillway {

// Since some moment in the past; never goes back.
inline TimeNs now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace spillway
