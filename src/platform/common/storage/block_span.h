// The blocks of an allocation, or of the address range, in which some bytes lie. Layer: platform,
// common.
#pragma once

#include "base/units.h"

namespace spillway {

struct BlockSpan {
  Bytes first = 0;  // counted from that start
  Bytes count = 0;
};

// Of `bytes` > 0 bytes that lie `from` bytes behind the start of a block.
constexpr BlockSpan blocks_with(Bytes from, Bytes bytes) {
  const Bytes first = from / kBlockBytes;
  return {.first = first, .count = (from + bytes - 1) / kBlockBytes - first + 1};
}

}  // namespace spillway
