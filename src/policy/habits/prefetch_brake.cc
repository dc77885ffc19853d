// See prefetch_brake.h.
#include "policy/habits/prefetch_brake.h"

#include <algorithm>

namespace spillway {

void PrefetchBrake::launched(std::size_t kernels) {
  if (++launches_ <= std::max<std::uint64_t>(kLeastLaunches, kernels_)) {
    return;
  }
  // While ever new kernels come, what comes in is not yet what will.
  const bool learning = kernels > kernels_;
  kernels_ = kernels;
  if (!learning) {
    end_epoch();
  }
  launches_ = 1;
  demanded_bytes_ = prefetched_bytes_ = 0;
}

void PrefetchBrake::end_epoch() {
  const double rate =
      static_cast<double>(demanded_bytes_ + prefetched_bytes_) / static_cast<double>(launches_);
  if (measuring_) {
    measuring_ = false;
    since_measured_ = 0;
    demand_ = rate;
    if (suspect_ > kMostOfDemand * demand_) {
      shorten();
    }
    return;
  }
  ++since_measured_;
  if (prefetched_bytes_ == 0) {
    demand_ = rate;
    return;
  }
  const bool little = demanded_bytes_ + prefetched_bytes_ <= kNoiseBytes;
  const bool too_much = !little && rate > kMostOfDemand * demand_;
  if (too_much && since_measured_ <= kDoubtedAfter && demand_ > 0) {
    shorten();
  } else if (too_much || (!little && since_measured_ >= kMeasureEvery)) {
    suspect_ = rate;
    measuring_ = true;
    good_ = 0;
  } else if (++good_ >= (starting_ ? 1 : kGoodInARow) && reach_ < most_) {
    reach_ = std::min(most_, std::max(1U, 2 * reach_));
    good_ = 0;
  }
}

void PrefetchBrake::shorten() {
  starting_ = false;
  reach_ /= 2;
  good_ = 0;
}

}  // namespace spillway
