// In which sizes memory is given out on a GPU, by `spillway run` and by a simulation of it. Layer:
// platform, common.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace spillway {

// The largest block on a device with so much memory, at most `most_bytes`: a device of a few blocks
// would leave no room to move in. Blocks that take long to copy are only for devices of many.
[[nodiscard]] inline Bytes largest_block_bytes(Bytes device_bytes, Bytes most_bytes) {
  constexpr Bytes kBlocksAtLeast = 8;
  constexpr Bytes kManyBlocks = 64;
  constexpr Bytes kMostOfFewBytes = 64 * kMiB;
  const Bytes part_bytes = std::max(std::min(device_bytes / kBlocksAtLeast, kMostOfFewBytes),
                                    device_bytes / kManyBlocks);
  return std::min(most_bytes, std::max(part_bytes / kBlockBytes * kBlockBytes, kBlockBytes));
}

// What an allocation takes of a heap that hands what is freed on to the next of its size. Small
// ones share frames and lie at multiples of 512, as the driver's do; a larger one has whole frames.
[[nodiscard]] inline Bytes heap_size_of(Bytes bytes, Bytes frame_bytes) {
  constexpr Bytes kSmallStep = 512;
  const Bytes small_bytes = round_up(std::max<Bytes>(bytes, 1), kSmallStep);
  return small_bytes < frame_bytes ? small_bytes : round_up(bytes, frame_bytes);
}

}  // namespace spillway
