// Room in a memory below the device, in runs: a block lies in one run where there is one, otherwise
// in several, so that as much can be placed as is free. Layer: platform, cuda. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/free_ranges.h"
#include "base/ids.h"
#include "base/units.h"

namespace spillway::cuda {

struct Run {
  std::uint64_t at = 0;
  Bytes bytes = 0;
};

class HostRanges {
 public:
  // Room from `at` on; a multiple of kBlockBytes. Runs that touch may become one.
  void add(std::uint64_t at, Bytes bytes) {
    free_.give(at, bytes);
    free_bytes_ += bytes;
  }
  // Room for the block, which has none yet: a multiple of kBlockBytes. False if so much is not
  // free.
  [[nodiscard]] bool take(BlockId block, Bytes bytes);
  // It needs none any more. Nothing happens if it has none.
  void give_back(BlockId block);
  // Empty if it has none.
  [[nodiscard]] std::vector<Run> of(BlockId block) const {
    return block < of_.size() ? of_[block] : std::vector<Run>{};
  }
  [[nodiscard]] Bytes free_bytes() const { return free_bytes_; }

 private:
  FreeRanges free_;
  Bytes free_bytes_ = 0;
  std::vector<std::vector<Run>> of_;  // by block
};

}  // namespace spillway::cuda
