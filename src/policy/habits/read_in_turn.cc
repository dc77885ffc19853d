// See read_in_turn.h.
#include "policy/habits/read_in_turn.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/launches/pending_uses.h"
#include "engine/memory/for_each_block.h"
#include "engine/memory/page_queues.h"
#include "engine/memory/space.h"
#include "policy/habits/small_blocks.h"

namespace spillway {
namespace {

// So many are looked at, from either end.
constexpr int kLooksFromEitherEnd = 32;
// Two gaps are the same if they differ by less than this part of the longer one.
constexpr LaunchSeq kGapPart = 8;
// A wrong choice adds so much to a block's number, up to the most, and a right one halves it. The
// block goes by age for the next returns: two to the power of it, none at 0.
constexpr int kWrong = 5;
constexpr int kMostWrong = 6;

bool alike(LaunchSeq gap, LaunchSeq other) {
  const auto [shorter, longer] = std::minmax(gap, other);
  return longer - shorter <= longer / kGapPart;
}

// On the device, and safe below it: it might leave at once.
bool lies_ready(BlockId id, const Control& control) {
  if (!control.space().has_tenant(id)) {
    return false;
  }
  const Block& block = control.space().block(id);
  return block.queue == PageQueue::kUsed && safe_below(block);
}

}  // namespace

void ReadInTurn::Uses::used(LaunchSeq launch) {
  if (last != 0) {
    std::shift_right(gaps.begin(), gaps.end(), 1);
    gaps[0] = launch - last;
  }
  last = launch;
}

// What is used in a forward and a backward pass has a short and a long gap by turns. Where they
// have not been seen to be so, the shorter counts.
LaunchSeq ReadInTurn::Uses::next() const {
  if (gaps[0] == 0) {
    return 0;
  }
  if (gaps[1] == 0) {
    return last + gaps[0];
  }
  const bool by_turns = alike(gaps[0], gaps[2]) && alike(gaps[1], gaps[3]);
  return last + (by_turns ? gaps[1] : std::min(gaps[0], gaps[1]));
}

ReadInTurn::Uses& ReadInTurn::uses_of(BlockId block, const Control& control) {
  if (block >= uses_.size()) {
    uses_.resize(control.space().block_slots());
  }
  return uses_[block];
}

void ReadInTurn::stand(BlockId block, LaunchSeq wanted) {
  Uses& uses = uses_[block];
  if (uses.wanted != 0) {
    wanted_.erase({uses.wanted, block});
  }
  uses.wanted = wanted;
  if (wanted != 0) {
    wanted_.insert({wanted, block});
  }
}

void ReadInTurn::issued(const Launch& launch, const Control& control) {
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    Uses& uses = uses_of(id, control);
    stand(id, 0);
    if (std::exchange(uses.away, false)) {
      judge(uses, control);
    }
  });
}

// It was right if what stayed has been used before this one is, or is about to be.
void ReadInTurn::judge(Uses& uses, const Control& control) {
  if (uses.returns_until > 0) {
    --uses.returns_until;
  }
  const BlockId stayed = std::exchange(uses.stayed, kNoBlock);
  if (stayed == kNoBlock || !control.space().has_tenant(stayed)) {
    return;
  }
  const bool right = uses_[stayed].last > uses.chosen || control.space().block(stayed).pins > 0 ||
                     control.pending_uses().next_launch(stayed) != kNoLaunch;
  uses.wrong =
      static_cast<std::uint8_t>(right ? uses.wrong / 2 : std::min(uses.wrong + kWrong, kMostWrong));
  uses.returns_until = static_cast<std::uint8_t>(uses.wrong == 0 ? 0 : 1 << uses.wrong);
}

void ReadInTurn::ended(const Launch& launch, const Control& control) {
  now_ = std::max(now_, launch.seq);
  const Bytes least_bytes = small_block_bytes(control);
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    Uses& uses = uses_of(id, control);
    if (launch.seq > uses.last) {  // streams end in any order
      uses.used(launch.seq);
    }
    const bool may_be_chosen = uses.returns_until == 0 && lies_ready(id, control) &&
                               control.space().block(id).bytes >= least_bytes &&
                               control.pending_uses().next_launch(id) == kNoLaunch;
    stand(id, may_be_chosen ? uses.next() : 0);
  });
}

void ReadInTurn::leaves(BlockId block, const Control& control) {
  Uses& uses = uses_of(block, control);
  stand(block, 0);
  uses.away = true;
  if (std::exchange(chosen_, kNoBlock) != block) {
    uses.stayed = kNoBlock;  // of a choice before this one
  }
}

// Not used when it was expected, nor for as long again: then it is expected as far from now as its
// last use is.
ReadInTurn::Choice ReadInTurn::or_forgotten(Choice choice, BlockId oldest, const Control& control) {
  auto at = wanted_.begin();
  for (int looks = 0; looks < kLooksFromEitherEnd && at != wanted_.end() && at->first < now_;
       ++looks) {
    const auto [wanted, id] = *at++;
    const LaunchSeq unused = now_ - uses_[id].last;
    if (!lies_ready(id, control)) {
      stand(id, 0);
    } else if (id != oldest && wanted + (wanted - uses_[id].last) < now_ &&
               now_ + unused > choice.expected && control.queues().is_unclaimed(id)) {
      return {.block = id, .expected = now_ + unused};
    }
  }
  return choice;
}

ReadInTurn::Choice ReadInTurn::or_wanted_last(Choice choice, BlockId oldest,
                                              const Control& control) {
  auto behind = wanted_.end();
  for (int looks = 0; looks < kLooksFromEitherEnd && behind != wanted_.begin(); ++looks) {
    const auto at = std::prev(behind);
    const auto [wanted, id] = *at;
    if (wanted <= choice.expected) {
      break;
    }
    if (!lies_ready(id, control)) {
      stand(id, 0);
    } else if (id != oldest && control.queues().is_unclaimed(id)) {
      return {.block = id, .expected = wanted};
    } else {
      behind = at;
    }
  }
  return choice;
}

BlockId ReadInTurn::instead_of(BlockId oldest, LaunchSeq expected, const Control& control) {
  // By the same rule as what it is compared with, where its gaps are known.
  if (const LaunchSeq own = uses_of(oldest, control).next(); own > now_) {
    expected = std::max(expected, own);
  }
  const Choice last = or_forgotten(
      or_wanted_last({.block = kNoBlock, .expected = expected}, oldest, control), oldest, control);
  if (last.block != kNoBlock) {
    uses_[last.block].stayed = oldest;
    uses_[last.block].chosen = now_;
    chosen_ = last.block;
  }
  return last.block;
}

}  // namespace spillway
