// Says which channel's memory the host has touched where the kernel alone may: an access to a
// closed view is a segmentation fault, and this adds a line to it. Layer: platform, near.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace spillway::near {

// While it lives, a fault in the range is explained on standard error before whoever handled the
// signal earlier, or the process's end, has it. The signal's handler is set with the first range
// and stays; a handler that the program sets later replaces it. Of more ranges than there are
// places for, the last ones are not explained. Thread-safe.
class WatchedRange {
 public:
  WatchedRange(const void* start, Bytes bytes, std::uint32_t channel);
  WatchedRange(const WatchedRange&) = delete;
  WatchedRange& operator=(const WatchedRange&) = delete;
  ~WatchedRange();

 private:
  std::size_t place_;
};

}  // namespace spillway::near
