// See read_in_turn.h.
#include "policy/read_in_turn.h"

#include <algorithm>
#include <utility>

#include "engine/claims.h"
#include "engine/for_each_block.h"
#include "engine/page_queues.h"
#include "engine/space.h"
#include "policy/small_blocks.h"

namespace spillway {
namespace {

// Of what came last, so many are compared.
constexpr int kNewest = 32;
// A wrong choice adds so much to a block's number, up to the most, and a right one halves it. The
// block goes by age for the next returns: two to the power of it, none at 0.
constexpr int kWrong = 5;
constexpr int kMostWrong = 6;

}  // namespace

// 0: it has not been used twice.
LaunchSeq ReadInTurn::Uses::next() const {
  return gap == 0 ? 0 : last + (gap_before == 0 ? gap : std::min(gap, gap_before));
}

ReadInTurn::Uses& ReadInTurn::uses_of(BlockId block, const Control& control) {
  if (block >= uses_.size()) {
    uses_.resize(control.space().block_slots());
  }
  return uses_[block];
}

void ReadInTurn::issued(const Launch& launch, const Control& control) {
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    if (Uses& uses = uses_of(id, control); std::exchange(uses.away, false)) {
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
                     control.claims().next_launch(stayed) != kNoLaunch;
  uses.wrong =
      static_cast<std::uint8_t>(right ? uses.wrong / 2 : std::min(uses.wrong + kWrong, kMostWrong));
  uses.returns_until = static_cast<std::uint8_t>(uses.wrong == 0 ? 0 : 1 << uses.wrong);
}

void ReadInTurn::ended(const Launch& launch, const Control& control) {
  now_ = std::max(now_, launch.seq);
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    Uses& uses = uses_of(id, control);
    if (uses.last >= launch.seq) {
      return;  // streams end in any order
    }
    if (uses.last != 0) {
      uses.gap_before = std::exchange(uses.gap, launch.seq - uses.last);
    }
    uses.last = launch.seq;
  });
}

void ReadInTurn::leaves(BlockId block, const Control& control) {
  Uses& uses = uses_of(block, control);
  uses.away = true;
  if (std::exchange(chosen_, kNoBlock) != block) {
    uses.stayed = kNoBlock;  // of a choice before this one
  }
}

BlockId ReadInTurn::instead_of(BlockId oldest, LaunchSeq expected, const Control& control) {
  const PageQueues& queues = control.queues();
  const Bytes least_bytes = small_block_bytes(control);
  BlockId last = kNoBlock;
  BlockId id = queues.newest_unclaimed();
  for (int looks = 0; id != kNoBlock && looks < kNewest; ++looks, id = queues.older_unclaimed(id)) {
    const Block& block = control.space().block(id);
    const Uses& uses = uses_of(id, control);
    if (id != oldest && block.bytes >= least_bytes && safe_below(block) &&
        uses.returns_until == 0 && uses.next() > expected) {
      last = id;
      expected = uses.next();
    }
  }
  if (last != kNoBlock) {
    (void)uses_of(oldest, control);
    uses_[last].stayed = oldest;
    uses_[last].chosen = now_;
    chosen_ = last;
  }
  return last;
}

}  // namespace spillway
