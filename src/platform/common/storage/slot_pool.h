// Places of powers of two within one range of numbers: host frames in an arena, blocks in a swap
// file. Layer: platform, common.
// A block takes the smallest place that holds it, so at most half of a place is waste, and a freed
// place serves the next block of its size without asking the system for pages again. Chunks of 2
// MiB are cut into places of one size; a chunk whose places are all free serves any size again. Not
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"

namespace spillway {

inline constexpr std::uint64_t kNoPlace = ~std::uint64_t{0};

class SlotPool {
 public:
  // Offsets run from 0 up to `bytes`, rounded up to a chunk; what is handed out never reaches
  // beyond.
  explicit SlotPool(Bytes bytes) : chunks_max_((bytes + kBlockBytes - 1) / kBlockBytes) {}

  // Where a block of up to 2 MiB goes; aligned to the power of two that it takes, at least a page.
  // nullopt if nothing is free.
  std::optional<std::uint64_t> take(Bytes bytes);
  // Of a block that was taken with the same size.
  void give_back(std::uint64_t offset, Bytes bytes);

 private:
  static constexpr std::size_t kClasses = 10;  // 4 KiB to 2 MiB
  struct Chunk {
    std::uint32_t used = 0;  // places
    std::uint8_t size_class = 0;
  };
  static std::size_t class_of(Bytes bytes);
  static Bytes bytes_of(std::size_t size_class) { return kPageBytes << size_class; }
  bool cut_chunk(std::size_t size_class);

  std::uint64_t chunks_max_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> whole_;                       // chunks that no place is used of
  std::array<std::vector<std::uint64_t>, kClasses> free_;  // offsets; most recently freed last
};

}  // namespace spillway
