// Copies a block down ahead of need if it had to leave the device at this point the last time.
// Layer: policy. docs/policies.md. The link carries both directions at once, but programs use one
// at a time: a forward pass only sends out, a backward pass and an optimizer only fetch. What the
// optimizer writes must leave during the next forward pass; the way out is free while the optimizer
// runs.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "engine/policy.h"
#include "policy/habits/reuse_prefetcher.h"
#include "policy/prediction/use_habit.h"

namespace spillway {

class EarlyWriteback {
 public:
  // The launch has ended; what it wrote may be copied down.
  void ended(const Launch& launch, const Control& control);
  // The block was chosen to make way.
  void leaves(BlockId block, const Control& control);
  // Wishes for copies of what leaves by habit and is not used up to this launch.
  void advance(LaunchSeq used_up_to, Control& control);
  // Of those that were copied down first, and that no issued launch names and nobody has written
  // since, the one that is expected to be used last: it leaves at once. None where launches name
  // all that were copied first.
  [[nodiscard]] std::optional<BlockId> copied(const Control& control, const ReusePrefetcher& uses);

 private:
  // Of a block, by its number: an allocation's numbers are its tensor's as long as it lives, and
  // mostly that of the same tensor of the next iteration.
  struct Habit {
    UseHabit leaves_after;   // of writes, behind which it had to make way
    bool copied = false;     // down, since the last of them
    bool listed = false;     // in written_ or later_
    bool in_copied = false;  // in copied_

    [[nodiscard]] bool leaves() const { return leaves_after.place().has_value(); }
  };

  Habit& habit_of(BlockId block, const Control& control);
  [[nodiscard]] bool is_copied_no_more(BlockId id, const Control& control) const;
  [[nodiscard]] bool needs_no_copy(BlockId id, const Control& control) const;
  void copy_first(std::deque<BlockId>& blocks, LaunchSeq used_up_to, Control& control);

  std::vector<Habit> habits_;
  std::deque<BlockId> written_;  // of those that leave, oldest first
  std::deque<BlockId> later_;    // of these, those that were still used when they were looked at
  std::deque<BlockId> copied_;   // in that order; may hold others, each once
};

}  // namespace spillway
