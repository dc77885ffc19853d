// See host_ranges.h.
#include "platform/cuda/memory/host_ranges.h"

#include <algorithm>

#include "base/grown_at.h"

namespace spillway::cuda {

bool HostRanges::take(BlockId block, Bytes bytes) {
  if (bytes > free_bytes_) {
    return false;
  }
  std::vector<Run>& runs = grown_at(of_, block);
  free_bytes_ -= bytes;
  Bytes left_bytes = bytes;
  Bytes piece_bytes = bytes;
  while (left_bytes > 0) {
    const Bytes wanted_bytes = std::min(piece_bytes, left_bytes);
    if (const auto at = free_.take(wanted_bytes)) {
      runs.push_back({.at = *at, .bytes = wanted_bytes});
      left_bytes -= wanted_bytes;
    } else {
      // Everything is a multiple of kBlockBytes, so there are runs of that size as long as there is
      // any.
      piece_bytes = round_up(wanted_bytes / 2, kBlockBytes);
    }
  }
  return true;
}

void HostRanges::give_back(BlockId block) {
  if (block >= of_.size()) {
    return;
  }
  for (const Run& run : of_[block]) {
    add(run.at, run.bytes);
  }
  of_[block].clear();
}

}  // namespace spillway::cuda
