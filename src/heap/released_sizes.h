// For each size, how many freed pieces the heap has given up or lent to smaller allocations. An
// allocation that needs such a size again is not growth of the program. Layer: heap. Not
// thread-safe. Of each size as many are missing as were ever in use at once, less those that are in
// use or kept for it. So nothing is counted while each allocation finds its own size.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/units.h"

namespace spillway {

class ReleasedSizes {
 public:
  // Kept for its size, and given up.
  void gave_up(Bytes size) { ++missing_[size]; }
  // One for which there was nothing has been made.
  void made(Bytes asked) { found(asked); }
  // One that is kept has gone to an allocation that asks for less; and is kept again.
  void lent(Bytes size, Bytes asked) {
    ++missing_[size];
    found(asked);
  }
  void returned(Bytes size, Bytes asked) {
    found(size);
    ++missing_[asked];
  }
  [[nodiscard]] bool has(Bytes size) const { return missing_.contains(size); }

 private:
  void found(Bytes size) {
    if (const auto at = missing_.find(size); at != missing_.end() && --at->second == 0) {
      missing_.erase(at);
    }
  }

  std::unordered_map<Bytes, std::uint64_t> missing_;  // by size; none that is 0
};

}  // namespace spillway
