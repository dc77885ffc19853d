// See trim_policy.h.
#include "heap/trim_policy.h"

#include <algorithm>

namespace spillway {
namespace {

constexpr Bytes kParts = 16;        // of the most in use
constexpr Bytes kSharedPart = 128;  // small allocations share frames, which are not full

Bytes usable_bytes(Bytes budget_bytes) { return budget_bytes - budget_bytes / kSharedPart; }

}  // namespace

void TrimPolicy::allocated(Bytes used_bytes) {
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
    given_up_bytes_ = 0;
    restless_bytes_ = 0;
  }
}

// Where that does not end, sizes being new all the time, more room is better than more calls. But
// not more than as much again.
void TrimPolicy::gave_up(Bytes bytes) {
  given_up_bytes_ += bytes;
  restless_bytes_ += full_ ? bytes : 0;
  if (given_up_bytes_ > most_used_bytes_) {
    given_up_bytes_ = 0;
    parts_ = std::min<std::uint64_t>(parts_ + 1, kParts);
  }
}

bool TrimPolicy::fits(Bytes size, const Has& has, Bytes budget_bytes) const {
  return size <= budget_bytes && most_with(size, has) < usable_bytes(budget_bytes);
}

Bytes TrimPolicy::room_bytes(Bytes size, const Has& has, Bytes budget_bytes) const {
  const Bytes most_bytes = most_with(size, has);
  return std::min(most_bytes + most_bytes / kParts * parts_, usable_bytes(budget_bytes));
}

// Under pressure memory that is larger than what is asked for would only have to move more often.
Bytes TrimPolicy::largest_for(Bytes size, const Has& has, Bytes budget_bytes) const {
  const bool shares_frame = size < kBlockBytes;
  if (shares_frame || !fits(size, has, budget_bytes)) {
    return size;
  }
  const Bytes room = room_bytes(size, has, budget_bytes);
  // While it grows what seems to come and go may stay.
  const Bytes times = has.all_bytes() + size > room ? 4 : 2;
  const Bytes most = grows() ? size + size / 4 : times * size;
  return std::min(most, size + (room - std::min(room, most_with(size, has) + has.more_bytes)));
}

bool TrimPolicy::is_too_much(Bytes size, const Has& has, Bytes budget_bytes) {
  constexpr Bytes kLargePart = 4;
  constexpr Bytes kRestlessTimes = 2;
  const Bytes beyond_bytes = gives_up_ ? 0 : most_used_bytes_ / kParts;
  const Bytes usable = usable_bytes(budget_bytes);
  const Bytes room = room_bytes(size, has, budget_bytes) + beyond_bytes;
  // What is so large, or would never end, had better have the frames of what is dead, which stays
  // mapped there: so the platform has it where there is no more room (Mechanism::holds_frame_of).
  full_ = room >= usable;
  const bool by_frames = full_ && (size > budget_bytes / kLargePart ||
                                   restless_bytes_ > kRestlessTimes * budget_bytes);
  gives_up_ = fits(size, has, budget_bytes) && !by_frames &&
              has.all_bytes() + size > std::min(room, usable);
  return gives_up_;
}

}  // namespace spillway
