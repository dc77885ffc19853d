// How much device memory a heap may keep, and how much larger a block than asked for it may hand
// out to keep less. Layer: heap. Not thread-safe; it knows no addresses. docs/cuda.md, "How much a
// program takes". A heap keeps freed memory by size, so it keeps as much as each size ever had in
// use at once: up to nine tenths more than its peak in use, and several times as much where shapes
// change. A program alone takes a sixth more. So where the budget has room for all that is in use,
// freed memory is also handed out to smaller allocations, and what is beyond a quarter more is
// given up, oldest first. Where the budget has no room, all freed memory may be taken.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace spillway {

class TrimPolicy {
 public:
  // What a heap has: in use, as it was asked for; what those have beyond that; and what is free.
  struct Has {
    Bytes used_bytes = 0;
    Bytes more_bytes = 0;
    Bytes free_bytes = 0;
    [[nodiscard]] Bytes all_bytes() const { return used_bytes + more_bytes + free_bytes; }
  };

  // One more allocation: so much is in use now, as it was asked for.
  void allocated(Bytes used_bytes);
  // Of what is free so much has been given up for something new.
  void gave_up(Bytes bytes);
  // Nobody is told of launches (docs/cuda.md).
  void is_at_rest() { restless_bytes_ = 0; }

  // The most that was in use.
  [[nodiscard]] Bytes most_used_bytes() const { return most_used_bytes_; }
  [[nodiscard]] std::uint64_t allocations() const { return allocations_; }
  // An optimizer's states come last in a first step, whose backward pass may allocate several times
  // as often as all did before the most was in use.
  [[nodiscard]] bool may_grow() const { return since_most() < 3 * of_growing(); }

  // Whether the budget has room for all that is in use with an allocation of `size`, and for what
  // was at the most: then what is not needed is nobody's.
  [[nodiscard]] bool fits(Bytes size, const Has& has, Bytes budget_bytes) const;
  // What the heap has at most where it does.
  [[nodiscard]] Bytes room_bytes(Bytes size, const Has& has, Bytes budget_bytes) const;
  // The largest that an allocation of `size`, by which the program does not grow, may be given of
  // what is free; `size`: nothing larger.
  [[nodiscard]] Bytes largest_for(Bytes size, const Has& has, Bytes budget_bytes) const;
  // Whether something that is free had better go before one of `size` is made. To be asked until
  // that is not so: to give up ends bypass mode, so where the budget has it another sixteenth of
  // the most in use is taken before that is done at all, and then all that is too much goes. In a
  // budget that has no more room, no longer than it brings the program to rest.
  [[nodiscard]] bool is_too_much(Bytes size, const Has& has, Bytes budget_bytes);

 private:
  static constexpr std::uint64_t kPartsAtFirst = 4;
  static constexpr std::uint64_t kOfGrowingAtMost = 4096;  // first steps seldom allocate as often
  // What a program allocates while it still grows stays with it, and so would what is more than it
  // asked for; by then it is not known either how much room there is.
  [[nodiscard]] bool grows() const { return since_most() < of_growing(); }
  [[nodiscard]] std::uint64_t since_most() const { return allocations_ - allocations_at_most_; }
  // A program that has become larger after a long time (a batch with longer texts, an evaluation)
  // does not grow for as long again.
  [[nodiscard]] std::uint64_t of_growing() const {
    return std::min(allocations_at_most_, kOfGrowingAtMost);
  }
  [[nodiscard]] Bytes most_with(Bytes size, const Has& has) const {
    return std::max(most_used_bytes_, has.used_bytes + size);
  }

  Bytes most_used_bytes_ = 0;
  std::uint64_t allocations_ = 0;          // so far
  std::uint64_t allocations_at_most_ = 0;  // when the most was in use for the first time
  Bytes given_up_bytes_ = 0;               // since more was last allowed
  Bytes restless_bytes_ = 0;               // ... by a full budget, since it was last at rest
  bool gives_up_ = false;                  // until it is not too much any more
  bool full_ = false;                      // the budget has no more room, when that was last asked
  // Sixteenths of the most in use that the heap may have beyond it, and what that was at first.
  std::uint64_t parts_ = kPartsAtFirst;
  Bytes parts_of_bytes_ = 0;
};

}  // namespace spillway
