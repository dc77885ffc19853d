// Which blocks are read in turn: then the one that has just come is wanted again last, and leaves
// instead of the oldest. Layer: policy. docs/lookahead.md.
// Weights of a model that writes texts are read once for each token. By age the block would leave
// that is wanted next, so that all of them came again each time; this way what there is room for
// stays. But a program that turns to something else looks the same at first, so each such choice is
// judged when its block comes back, and one that was wrong is not repeated soon.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/policy.h"

namespace spillway {

class ReadInTurn {
 public:
  void issued(const Launch& launch, const Control& control);
  void ended(const Launch& launch, const Control& control);
  // The block was chosen to make way.
  void leaves(BlockId block, const Control& control);
  // Of the blocks that came last, that no issued launch names and that leave without a copy, the
  // one that is wanted last, if that is after `expected`, when the oldest block is; kNoBlock if
  // there is none. What is too small to be worth moving is none. What is answered leaves.
  [[nodiscard]] BlockId instead_of(BlockId oldest, LaunchSeq expected, const Control& control);

 private:
  // Of a block, by its number, as in leavers.h: also where another lives there by now, which costs
  // one choice.
  struct Uses {
    LaunchSeq last = 0;
    // How many launches from a use to the next one, the last times.
    LaunchSeq gap = 0;
    LaunchSeq gap_before = 0;
    BlockId stayed = kNoBlock;       // the oldest when this one was chosen instead
    LaunchSeq chosen = 0;            // and when that was
    std::uint8_t wrong = 0;          // grows with choices that were, and falls with others
    std::uint8_t returns_until = 0;  // it may be chosen again
    bool away = false;

    // The launch that is expected to use it next. What has been used twice in an iteration is
    // wanted soon.
    [[nodiscard]] LaunchSeq next() const;
  };
  Uses& uses_of(BlockId block, const Control& control);
  void judge(Uses& uses, const Control& control);

  std::vector<Uses> uses_;
  BlockId chosen_ = kNoBlock;  // and has not left yet
  LaunchSeq now_ = 0;          // the last launch that has ended
};

}  // namespace spillway
