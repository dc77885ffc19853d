// Fetches a block that has left the device and will be needed again, before any issued launch names
// it, into room that nothing else needs. Layer: policy. docs/policies.md.
// A queue of launches shows the next milliseconds. What an optimizer needs can come during the
// whole backward pass, whose memory dies step by step while the way in is free.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "engine/policy.h"
#include "policy/prediction/use_habit.h"

namespace spillway {

class ReusePrefetcher {
 public:
  // The launch has been issued: what it names is no matter of habit any more.
  void issued(const Launch& launch, const Control& control);
  void ended(const Launch& launch, const Control& control);
  // The block was chosen to make way.
  void leaves(BlockId block, const Control& control);
  // The launch that is expected to use the block next: by habit, or, where none is known or it has
  // come to nothing, as far from now as its last use is.
  [[nodiscard]] LaunchSeq expected(BlockId block) const;
  // Wishes for what is expected to be needed first, as long as there is room that nothing needs.
  void advance(Control& control);

 private:
  // How many launches after this one a block was named again, and how many after it was too early:
  // it had come, and had to leave before anybody named it.
  struct Return {
    LaunchSeq launches = 0;
    LaunchSeq too_early = 0;
  };
  // Of a block, by its number, as in early_writeback.h.
  struct Habit {
    UseHabit returns_after;  // of uses, behind which it was away before it was named again
    std::array<Return, UseHabit::kPlaces> returns{};
    LaunchSeq expected = 0;  // where it stands in away_; 0: nowhere
    bool away = false;       // it left, and no launch has named it since
    bool brought = false;    // by habit, and no launch has named it since

    [[nodiscard]] LaunchSeq used() const { return returns_after.last_use(); }
    [[nodiscard]] const Return* known() const;
  };
  Habit& habit_of(BlockId block, const Control& control);
  void forget(BlockId block, Habit& habit);

  std::vector<Habit> habits_;
  std::set<std::pair<LaunchSeq, BlockId>> away_;  // by the launch that is expected to need it
  LaunchSeq now_ = 0;                             // the last launch that has ended
};

}  // namespace spillway
