// How far a program may be ahead of its GPU: the driver's queues of launches. Layer: runtime.
// docs/gpu.md, section 4.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace spillway {

// The driver's variable, which scales the queue of each stream: "0.25x", "0.5x", "2x" or "4x". The
// driver reads it once, before the program's first call.
inline constexpr const char* kQueueScaleVariable = "CUDA_SCALE_LAUNCH_QUEUES";
inline constexpr const char* kLongestQueues = "4x";

// How many launches of a program may be issued and not ended before Spillway holds it back, so that
// the driver's own queue never gets full. `scale` is the variable's value or null; `driver_version`
// as cuDriverGetVersion counts: an older driver than the variable was tried with may not know it.
[[nodiscard]] inline std::uint32_t launches_ahead(const char* scale, int driver_version) {
  constexpr std::uint32_t kUsual = 600;  // of 1,021 that a queue holds
  constexpr int kKnowsVariable = 13'000;
  constexpr std::array<std::pair<std::string_view, std::uint32_t>, 4> kQuarters{
      {{"0.25x", 1}, {"0.5x", 2}, {"2x", 8}, {"4x", 16}}};
  const std::string_view set = scale == nullptr ? "" : scale;
  const auto* const found = std::find_if(kQuarters.begin(), kQuarters.end(),
                                         [&](const auto& known) { return known.first == set; });
  if (found == kQuarters.end() || (driver_version < kKnowsVariable && found->second > 4)) {
    return kUsual;
  }
  return kUsual / 4 * found->second;
}

}  // namespace spillway
