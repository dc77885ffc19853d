// See result_reach.h.
#include "policy/habits/result_reach.h"

#include <algorithm>

namespace spillway {

// Bets are not due in the order in which they were made, but nearly: one may be found lost a few
// launches late.
void ResultReach::launched() {
  ++launches_;
  while (!due_.empty() && due_.front().launch < launches_) {
    const Due due = due_.front();
    due_.pop_front();
    const auto bet = open_.find(due.block);
    if (bet != open_.end() && bet->second.number == due.number) {
      settle(due.block, false);
    }
  }
}

bool ResultReach::expect(BlockId block, std::uint32_t distance) {
  const auto [bet, made] = open_.try_emplace(block, Bet{.number = bets_});
  if (made) {
    due_.push_back({.launch = launches_ + distance + kPatience, .number = bets_, .block = block});
    ++bets_;
  }
  const bool wants_frame = distance <= reach_;
  bet->second.has_frame |= wants_frame;
  return wants_frame;
}

void ResultReach::leaves_for(BlockId victim, BlockId block) {
  if (open_.contains(block)) {
    left_for_[victim] = block;
  }
}

void ResultReach::used(BlockId block, bool there) {
  if (const auto bet = open_.find(block); bet != open_.end()) {
    settle(block, there || !bet->second.has_frame);
  }
}

void ResultReach::wanted(BlockId block) {
  const auto left = left_for_.find(block);
  if (left == left_for_.end()) {
    return;
  }
  if (open_.contains(left->second)) {
    settle(left->second, false);
  }
  left_for_.erase(left);
}

void ResultReach::settle(BlockId block, bool won) {
  open_.erase(block);
  ++(won ? won_ : lost_);
  if (lost_ > kSomeLost) {
    shorten();
  } else if (won_ + lost_ < kBets) {
    return;
  } else if (lost_ <= kFewLost) {
    lengthen();
  }
  won_ = lost_ = 0;
}

void ResultReach::shorten() {
  rounds_won_ = 0;
  if (reach_ == 0) {
    return;
  }
  reach_ = reach_ > first() ? reach_ / 2 : 0;
  if (reach_ == 0) {
    rounds_needed_ = std::min(2 * rounds_needed_, kMostRounds);
  }
}

void ResultReach::lengthen() {
  if (reach_ == most_) {
    rounds_needed_ = 1;  // it has paid all the way
  } else if (reach_ > 0) {
    reach_ = std::min(most_, 2 * reach_);
  } else if (++rounds_won_ >= rounds_needed_) {
    rounds_won_ = 0;
    reach_ = first();
  }
}

}  // namespace spillway
