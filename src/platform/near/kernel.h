// What a channel runs next to its memory. Layer: platform, near.
#pragma once

#include <cstddef>
#include <span>

#include "base/error.h"
#include "base/units.h"

namespace spillway::near {

// Two blocks for each of five inputs and four outputs, which is what the kernel of an optimizer
// step wants most.
inline constexpr Bytes kNearBlockBytes = 16 * kKiB;
inline constexpr std::size_t kNearQueuesMax = 9;
inline constexpr Bytes kOnChipBytes = 2 * kNearQueuesMax * kNearBlockBytes;

class Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel() = default;

  // Once, by its channel's thread, while the channel is in acceleration mode. `on_chip`:
  // kOnChipBytes that are aligned to a cache line and hold anything. What it throws or returns as
  // an error is the kernel's outcome.
  virtual Status run(std::span<std::byte> on_chip) = 0;
};

}  // namespace spillway::near
