// Whether a run has the processor update optimizer states that lie in host memory
// (--near-optimizer). Layer: cli. docs/near-memory.md, "From PyTorch".
#pragma once

#include <optional>
#include <string>

#include "cli/run/run_device.h"
#include "platform/common/storage/link_throttle.h"

namespace spillway {

inline constexpr const char* kNearOptimizerVariable = "SPILLWAY_NEAR_OPTIMIZER";

struct NearChoice {
  bool on = false;
  std::string from;  // the option, the variable, or "default" with the reason
};

// Faster links than this move states to the device and back in less time than the processor takes
// for the updates, or as much (docs/results.md, "The optimizer at the host"): PCIe 4 with 16 lanes
// is slower, PCIe 5 with 16 is faster.
inline constexpr double kNearPaysUpToBytesPerS = 32e9;

// `option`: what was asked for, "auto", "on" or "off"; if empty, SPILLWAY_NEAR_OPTIMIZER counts, or
// else auto. That decides by the link: by what it is held to, or by what the GPU's own can carry;
// on the host, and where nobody knows, it is off.
[[nodiscard]] NearChoice choose_near(const std::string& option, const std::optional<GpuFacts>& gpu,
                                     const LinkSpeed& held_to);

}  // namespace spillway
