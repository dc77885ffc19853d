// Chooses as victim the block that is wanted last, by the gaps between its uses, where a program
// reads more in turn than there is room for. Layer: policy. docs/policies.md. A model that
// generates text reads its weights once for each token. By age the block that is wanted next would
// leave, so that all would have to come again each time; chosen this way, what there is room for
// stays. A program that turns to something else looks the same at first, so each choice is judged
// when its block comes back, and a wrong one is not repeated soon.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "engine/policy.h"

namespace spillway {

class ReadInTurn {
 public:
  void issued(const Launch& launch, const Control& control);
  void ended(const Launch& launch, const Control& control);
  // The block was chosen to make way.
  void leaves(BlockId block, const Control& control);
  // Of what no issued launch names and that leaves without a copy, the block that is wanted last,
  // if that is after `expected`, when the oldest block is; kNoBlock if there is none. What is too
  // small to be worth moving is none. What is answered leaves.
  [[nodiscard]] BlockId instead_of(BlockId oldest, LaunchSeq expected, const Control& control);

 private:
  // Of a block, by its number, as in early_writeback.h: also where another lives there by now,
  // which costs it a choice, or that it goes by age for a while.
  struct Uses {
    LaunchSeq last = 0;
    // How many launches from a use to the next one, the last times, the latest first; 0: not known.
    std::array<LaunchSeq, 4> gaps{};
    LaunchSeq wanted = 0;            // where it stands in wanted_; 0: nowhere
    BlockId stayed = kNoBlock;       // the oldest when this one was chosen instead
    LaunchSeq chosen = 0;            // and when that was
    std::uint8_t wrong = 0;          // grows with choices that were, and falls with others
    std::uint8_t returns_until = 0;  // it may be chosen again
    bool away = false;

    void used(LaunchSeq launch);
    // The launch that is expected to use it next; 0: it has not been used twice.
    [[nodiscard]] LaunchSeq next() const;
  };
  Uses& uses_of(BlockId block, const Control& control);
  void judge(Uses& uses, const Control& control);
  // From now on it stands there, or nowhere.
  void stand(BlockId block, LaunchSeq wanted);
  struct Choice {
    BlockId block = kNoBlock;
    LaunchSeq expected = 0;
  };
  // The better of that choice and one of those that have been forgotten, or of those that are
  // wanted last.
  [[nodiscard]] Choice or_forgotten(Choice choice, BlockId oldest, const Control& control);
  [[nodiscard]] Choice or_wanted_last(Choice choice, BlockId oldest, const Control& control);

  std::vector<Uses> uses_;
  // What was safe below the device, and named by no issued launch, when its last use ended, and may
  // be chosen: by the launch that is expected to use it. Those that are not any more leave when
  // they are looked at.
  std::set<std::pair<LaunchSeq, BlockId>> wanted_;
  BlockId chosen_ = kNoBlock;  // and has not left yet
  LaunchSeq now_ = 0;          // the last launch that has ended
};

}  // namespace spillway
