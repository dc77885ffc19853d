// How far ahead it pays to make frames ready for results: memory that holds nothing, and that a
// kernel to come writes first. Layer: policy.
// Nothing moves for such a frame, but somebody gives one up for it, long before it is written. That
// pays where kernels write to the same places each time, and harms where they do not: then the
// frame lies there unused. So each block that is expected to be written is a bet. It is won when
// the memory comes into use in time, and its frame is still there. It is lost when the kernel that
// it was expected for is over and nobody has used it, when its frame was taken away before, and
// when what left for it has been wanted back meanwhile. While bets are won the reach grows; as they
// are lost it shrinks, to 0. There bets go on without frames, which harms nobody: as many must be
// won before it is tried again as it has been tried in vain, and twice as many each time.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "base/ids.h"

namespace spillway {

// Counts launches. Not safe for concurrent use. Takes constant time a call, amortised, and memory
// for as many blocks as there are.
class ResultReach {
 public:
  // Never further ahead than this.
  static constexpr std::uint32_t kMost = 16;

  // Nor than `degree`.
  explicit ResultReach(std::uint32_t degree) : most_(degree < kMost ? degree : kMost) {}

  // For how many kernels ahead frames are made ready now; 0: for none.
  [[nodiscard]] std::uint32_t reach() const { return reach_; }
  // For how many it is told which blocks they are expected to write.
  [[nodiscard]] std::uint32_t looks_ahead() const { return reach_ == 0 ? first() : reach_; }

  // A launch has begun.
  void launched();
  // The kernel that comes so many launches after the current one is expected to write this block,
  // which holds nothing. Whether to make a frame ready for it.
  [[nodiscard]] bool expect(BlockId block, std::uint32_t distance);
  // This victim leaves so that `block`, if it is expected, has a frame.
  void leaves_for(BlockId victim, BlockId block);
  // The memory comes into use; `there`: with its frame.
  void used(BlockId block, bool there);
  // The contents of this block are needed, and are not there.
  void wanted(BlockId block);

 private:
  // Where it begins, and where bets are made without frames.
  static constexpr std::uint32_t kFirst = 4;
  // So many launches after its kernel's turn memory is unused.
  static constexpr std::uint64_t kPatience = 8;
  // Bets after which to decide; how many of them may be lost for it to grow, and for it to stay.
  static constexpr std::uint32_t kBets = 32;
  static constexpr std::uint32_t kFewLost = 2;
  static constexpr std::uint32_t kSomeLost = 6;
  // Rounds of so many bets that must be won without frames, at most.
  static constexpr std::uint32_t kMostRounds = 64;

  struct Bet {
    std::uint64_t number = 0;
    bool has_frame = false;  // one has been asked for
  };
  struct Due {
    std::uint64_t launch = 0;  // behind this one the bet is lost
    std::uint64_t number = 0;
    BlockId block = kNoBlock;
  };

  [[nodiscard]] std::uint32_t first() const { return most_ < kFirst ? most_ : kFirst; }
  void settle(BlockId block, bool won);
  void shorten();
  void lengthen();

  std::uint32_t most_;
  std::uint32_t reach_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t bets_ = 0;
  std::uint32_t won_ = 0;  // of this round
  std::uint32_t lost_ = 0;
  std::uint32_t rounds_needed_ = 1;  // in a row without frames, before it is tried
  std::uint32_t rounds_won_ = 0;
  std::unordered_map<BlockId, Bet> open_;
  std::deque<Due> due_;                            // by when the bet was made
  std::unordered_map<BlockId, BlockId> left_for_;  // by victim
};

}  // namespace spillway
