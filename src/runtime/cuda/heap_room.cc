// See heap_room.h.
#include "runtime/cuda/heap_room.h"

#include <algorithm>

namespace spillway {
namespace {

constexpr Bytes kParts = 16;        // of the most in use
constexpr Bytes kSharedPart = 128;  // small allocations share frames, which are not full

Bytes usable_bytes(Bytes budget_bytes) { return budget_bytes - budget_bytes / kSharedPart; }

}  // namespace

void HeapRoom::allocated(Bytes used_bytes) {
  ++allocations_;
  if (used_bytes <= most_used_bytes_) {
    return;
  }
  most_used_bytes_ = used_bytes;
  allocations_at_most_ = allocations_;
  // What was too little for a program that was much smaller says nothing of this one.
  if (most_used_bytes_ > parts_of_bytes_ + parts_of_bytes_ / 4) {
    parts_of_bytes_ = most_used_bytes_;
    parts_ = kPartsAtFirst;
    given_up_since_bytes_ = 0;
  }
}

// Where that does not end, sizes being new all the time, more room is better than more calls. But
// not more than as much again.
void HeapRoom::gave_up(Bytes bytes, bool ample) {
  if (ample) {
    given_up_since_bytes_ += bytes;
  } else {
    given_up_bytes_ += bytes;
  }
  if (given_up_since_bytes_ > most_used_bytes_) {
    given_up_since_bytes_ = 0;
    parts_ = std::min<std::uint64_t>(parts_ + 1, kParts);
  }
}

Bytes HeapRoom::wanted_bytes(Bytes size, const Has& has) const {
  const Bytes used_bytes = std::max(most_used_bytes_, has.used_bytes + size);
  return used_bytes + used_bytes / kParts * parts_;
}

bool HeapRoom::is_ample(Bytes size, const Has& has, Bytes budget_bytes) const {
  return size <= budget_bytes && wanted_bytes(size, has) < usable_bytes(budget_bytes);
}

Bytes HeapRoom::most_bytes(Bytes size, const Has& has, Bytes budget_bytes) const {
  return std::min(wanted_bytes(size, has), usable_bytes(budget_bytes));
}

// How much more than they ask for allocations may have, where one of this size has no room beside
// what is free, but what is in use has much. 0: there is room; or there is pressure, under which
// memory that is larger than what is asked for would only have to move more often; or it is so
// large that frames had better go from what is dead to what is new, which the platform does.
Bytes HeapRoom::spare_bytes(Bytes size, const Has& has, Bytes budget_bytes) const {
  constexpr Bytes kLargePart = 4;
  const Bytes most_bytes = usable_bytes(budget_bytes);
  const Bytes in_use = std::max(most_used_bytes_, has.used_bytes + size) + has.more_bytes;
  if (has.all_bytes() + size <= most_bytes || in_use > most_bytes ||
      size > budget_bytes / kLargePart) {
    return 0;
  }
  return most_bytes - in_use;
}

Bytes HeapRoom::largest_for(Bytes size, const Has& has, Bytes budget_bytes) const {
  const bool shares_frame = size < kBlockBytes;
  if (is_ample(size, has, budget_bytes)) {
    if (shares_frame) {
      return size;
    }
    const Bytes room = wanted_bytes(size, has);
    // While it grows what seems to come and go may stay.
    const Bytes times = has.all_bytes() + size > room ? 4 : 2;
    const Bytes most = grows() ? size + size / 4 : times * size;
    const Bytes in_use = std::max(most_used_bytes_, has.used_bytes + size) + has.more_bytes;
    return std::min(most, size + (room - std::min(room, in_use)));
  }
  if (grows()) {
    return size;
  }
  const Bytes most_more_bytes = budget_bytes / 8;
  const Bytes spare = std::min(spare_bytes(size, has, budget_bytes),
                               most_more_bytes - std::min(most_more_bytes, has.more_bytes));
  if (spare == 0) {
    return size;
  }
  const Bytes most = shares_frame ? kBlockBytes - 1 : 2 * size;
  return std::min(most, size + spare);
}

bool HeapRoom::is_too_much(Bytes size, const Has& has, Bytes budget_bytes) {
  // Where that does not end, everything being used too tightly, the platform does better.
  constexpr Bytes kGivenUpTimes = 2;
  if (is_ample(size, has, budget_bytes)) {
    const Bytes beyond_bytes = gives_up_ ? 0 : most_used_bytes_ / kParts;
    gives_up_ = has.all_bytes() + size > wanted_bytes(size, has) + beyond_bytes;
    return gives_up_;
  }
  return spare_bytes(size, has, budget_bytes) > 0 && given_up_bytes_ < kGivenUpTimes * budget_bytes;
}

}  // namespace spillway
