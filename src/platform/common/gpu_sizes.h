// In which sizes memory is given out on a GPU, by `spillway run` and by a simulation of it. Layer:
// platform, common.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace spillway {

// More is only for devices and tiers that hold many of them, and no more is copied at once.
inline constexpr Bytes kUsualBlockBytes = 64 * kMiB;
inline constexpr Bytes kLargestBlockBytes = 128 * kMiB;

// The largest block on a device with so much memory, at most `most_bytes`: a device of a few blocks
// would leave no room to move in. Larger blocks than usual are only for devices of many.
[[nodiscard]] inline Bytes largest_block_bytes(Bytes device_bytes, Bytes most_bytes) {
  constexpr Bytes kBlocksAtLeast = 8;
  constexpr Bytes kManyBlocks = 64;
  if (most_bytes > kUsualBlockBytes && device_bytes / kManyBlocks >= most_bytes) {
    return most_bytes;
  }
  const Bytes part_bytes = device_bytes / kBlocksAtLeast / kBlockBytes * kBlockBytes;
  return std::min({most_bytes, kUsualBlockBytes, std::max(part_bytes, kBlockBytes)});
}

// The same for `spillway run`, with this below the device. What comes from a disk is read whole
// before it is copied, and little host memory holds few blocks: there they are smaller.
[[nodiscard]] inline Bytes largest_block_of_run(Bytes device_bytes, Bytes host_bytes,
                                                bool storage) {
  const bool small = storage || host_bytes < kGiB;
  return largest_block_bytes(device_bytes, small ? kUsualBlockBytes : kLargestBlockBytes);
}

// What host memory grows by there: several pieces of it, each of a block at least.
[[nodiscard]] inline Bytes pinned_piece_of_run(Bytes host_bytes, Bytes block_bytes) {
  constexpr Bytes kPiecesAtLeast = 8;
  return std::clamp(host_bytes / kPiecesAtLeast / kBlockBytes * kBlockBytes, block_bytes,
                    std::max(kUsualBlockBytes, block_bytes));
}

// What is copied in by one transfer, of blocks of at most this size: who waits for the first of
// them waits for all.
[[nodiscard]] inline Bytes copied_at_once_bytes(Bytes block_bytes) {
  return std::min(block_bytes, kUsualBlockBytes);
}

// What an allocation takes of a heap that hands what is freed on to the next of its size. Small
// ones share frames and lie at multiples of 512, as the driver's do; a larger one has whole frames.
[[nodiscard]] inline Bytes heap_size_of(Bytes bytes, Bytes frame_bytes) {
  constexpr Bytes kSmallStep = 512;
  const Bytes small_bytes = round_up(std::max<Bytes>(bytes, 1), kSmallStep);
  return small_bytes < frame_bytes ? small_bytes : round_up(bytes, frame_bytes);
}

}  // namespace spillway
