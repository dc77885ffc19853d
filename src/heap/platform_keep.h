// How much memory the platform may hold for this heap: what the heap has, and freed memory kept for
// the next allocation of the same size. Layer: heap. Knows neither the heap nor the platform.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "base/units.h"

namespace spillway {

class PlatformKeep {
 public:
  // `tell`: the platform is told how much it may keep, what the heap has included.
  explicit PlatformKeep(std::function<void(Bytes)> tell) : tell_(std::move(tell)) {}

  void at_most(Bytes bytes) {
    if (std::exchange(at_most_bytes_, bytes) != bytes) {
      tell_(bytes);
    }
  }
  // The heap is about to be trimmed, and has so much now.
  void trims(Bytes all_bytes) { trimmed_from_bytes_ = std::max(trimmed_from_bytes_, all_bytes); }
  // Memory is about to be made; the heap will then have `with_it_bytes`. `fits`: the budget has
  // room for that, and for what was in use at the most. After a trim it follows what the heap has
  // until that is as much as before: what is given back then comes later than the next allocation.
  void before_making(Bytes with_it_bytes, bool fits) {
    if (fits) {
      at_most(with_it_bytes);
      trimmed_from_bytes_ = 0;
    } else if (with_it_bytes < trimmed_from_bytes_) {
      at_most(std::max(at_most_bytes_, with_it_bytes));
    } else {
      at_most(~Bytes{0});
      trimmed_from_bytes_ = 0;
    }
  }

 private:
  std::function<void(Bytes)> tell_;
  // What the heap had before a trim; 0: it has had as much since.
  Bytes trimmed_from_bytes_ = 0;
  Bytes at_most_bytes_ = ~Bytes{0};  // as the platform was told last
};

}  // namespace spillway
