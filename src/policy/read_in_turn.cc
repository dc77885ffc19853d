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

// Of what was used last, so many are compared.
constexpr int kNewest = 32;
// What a wrong choice counts, beside a right one, which halves them; and at most.
constexpr int kWrong = 4;
constexpr int kMostWrong = 6;

}  // namespace

// 0: it has not been used twice.
LaunchSeq ReadInTurn::Uses::next() const {
  return gap == 0 ? 0 : last + (gap_before == 0 ? gap : std::min(gap, gap_before));
}

ReadInTurn::Uses& ReadInTurn::uses_of(BlockId block, const Control& control) {
  if (block >= uses_.size()) {
    uses_.resize(std::max<std::size_t>(control.space().block_slots(), block + std::size_t{1}));
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

// It was right if what stayed has been used before this one is.
void ReadInTurn::judge(Uses& uses, const Control& control) {
  if (uses.returns_until > 0) {
    --uses.returns_until;
  }
  if (uses.stayed == kNoBlock) {
    return;
  }
  const bool right = uses_[uses.stayed].last > uses.chosen ||
                     control.claims().next_launch(uses.stayed) != kNoLaunch;
  uses.wrong =
      static_cast<std::uint8_t>(right ? uses.wrong / 2 : std::min(uses.wrong + kWrong, kMostWrong));
  uses.returns_until = static_cast<std::uint8_t>(uses.wrong == 0 ? 0 : 1 << uses.wrong);
  uses.stayed = kNoBlock;
}

void ReadInTurn::ended(const Launch& launch, const Control& control) {
  now_ = std::max(now_, launch.seq);
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    Uses& uses = uses_of(id, control);
    if (uses.last != 0 && uses.last != launch.seq) {
      uses.gap_before = std::exchange(uses.gap, launch.seq - uses.last);
    }
    uses.last = launch.seq;
  });
}

void ReadInTurn::leaves(BlockId block, const Control& control) {
  uses_of(block, control).away = true;
}

BlockId ReadInTurn::instead_of(BlockId oldest, LaunchSeq expected, const Control& control) {
  const PageQueues& queues = control.queues();
  const Bytes least_bytes = small_block_bytes(control);
  BlockId last = kNoBlock;
  BlockId id = queues.newest_unclaimed();
  for (int looks = 0; id != kNoBlock && looks < kNewest; ++looks, id = queues.older_unclaimed(id)) {
    const Block& block = control.space().block(id);
    const Uses& uses = uses_of(id, control);
    if (block.bytes >= least_bytes && safe_below(block) && uses.returns_until == 0 &&
        uses.next() > expected) {
      last = id;
      expected = uses.next();
    }
  }
  if (last != kNoBlock) {
    (void)uses_of(oldest, control);
    uses_[last].stayed = oldest;
    uses_[last].chosen = now_;
  }
  return last;
}

}  // namespace spillway
