// Which blocks are too small to be worth moving while others can make way. Layer: policy.
// A frame that is a handle costs the same calls of the driver however large it is (a fifth of a
// millisecond to go, and as much to come back; docs/cuda.md), and 16 MiB are copied in 0.3.
#pragma once

#include "engine/policy.h"

namespace spillway {

// A block of less is small. 0 where what moves costs by its bytes.
[[nodiscard]] Bytes small_block_bytes(const Control& control);

// Of the blocks that no issued launch names, one of the oldest, the first that is large if one is,
// otherwise the first of the largest. kNoBlock if there is none.
[[nodiscard]] BlockId oldest_worth_moving(const Control& control);

}  // namespace spillway
