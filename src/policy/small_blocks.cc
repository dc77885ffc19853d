// See small_blocks.h.
#include "policy/small_blocks.h"

#include <algorithm>

#include "engine/page_queues.h"
#include "engine/space.h"

namespace spillway {

// Where the device itself is small, small blocks are a good part of what it holds.
Bytes small_block_bytes(const Control& control) {
  constexpr Bytes kSmallPart = 128;
  return control.frames_have_sizes()
             ? std::min<Bytes>(control.capacity_bytes(Tier::kDevice) / kSmallPart, 16 * kMiB)
             : 0;
}

BlockId oldest_worth_moving(const Control& control) {
  constexpr int kLooks = 128;  // those behind them may be needed much sooner
  const PageQueues& queues = control.queues();
  const Bytes large_bytes = 2 * small_block_bytes(control);
  const BlockId oldest = queues.oldest_unclaimed();
  BlockId best = oldest;
  BlockId id = oldest;
  for (int looks = 0; id != kNoBlock && looks < kLooks; ++looks, id = queues.newer_unclaimed(id)) {
    if (control.space().block(best).bytes >= large_bytes) {
      return best;
    }
    if (control.space().block(id).bytes > control.space().block(best).bytes) {
      best = id;
    }
  }
  return best;
}

}  // namespace spillway
