// Which blocks are too small to be worth evicting while others can leave. Layer: policy.
// A frame that is a handle costs the same driver calls however large it is (a fifth of a
// millisecond to go, and as much to come back; docs/cuda.md), while 16 MiB are copied in 0.3 ms. So
// small blocks are passed over, unless they have not been used for long.
#pragma once

#include <limits>
#include <vector>

#include "engine/policy.h"

namespace spillway {

// A block of less is small. 0 where what moves costs by its bytes.
[[nodiscard]] Bytes small_block_bytes(const Control& control);

class SmallBlocks {
 public:
  // The launch has ended: what it used is in use.
  void ended(const Launch& launch);
  // The block was chosen to make way.
  void leaves(BlockId block, const Control& control);

  // Of the blocks that no issued launch names: the oldest that is at least twice as large as a
  // small one, if it is not far behind others, or one that has been passed over for too long; else
  // the first of the largest of those others. kNoBlock if there is none.
  [[nodiscard]] BlockId oldest_worth_moving(const Control& control);

 private:
  static constexpr Bytes kNotPassed = std::numeric_limits<Bytes>::max();
  [[nodiscard]] bool passed_too_long(BlockId block, Bytes device_bytes);

  Bytes left_bytes_ = 0;       // of all that has had to leave
  std::vector<Bytes> passed_;  // by block: left_bytes_ when it was first passed over, unused since
};

}  // namespace spillway
