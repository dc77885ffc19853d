// The device's page queues: unused, discarded and used frames, in the order in which they are
// reclaimed (UVM Discard section 5.5). Layer: engine.
// Free frames need no queue: they are the capacity that no block holds. Whatever lies in the unused
// and discarded queues can go at once, so those are lists; links live in the blocks. The used queue
// also holds what launches have pinned, and what they will need soon, so that a block that is let
// go is again as old as it is: it is an index that finds the oldest that may go, past any number of
// others.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>

#include "engine/launches/order_index.h"
#include "engine/launches/pending_uses.h"
#include "engine/memory/space.h"

namespace spillway {

class PageQueues {
 public:
  PageQueues(Space& space, PendingUses& pending_uses)
      : space_(&space), pending_uses_(&pending_uses) {}

  // The block joins the queue at its newest end; leaves the one it was in. In the used queue it may
  // leave if nothing has pinned it, it is not being copied down, and it is not host-mapped.
  void push(PageQueue queue, BlockId id);
  // Leaves its queue, if it is in one.
  void remove(BlockId id);
  // It was pinned, let go, claimed, or a copy of it has begun or ended: whether it may leave, and
  // at what price, may have changed.
  void update(BlockId id);

  // The end that is reclaimed first; kNoBlock where the queue is empty. Of the used queue, the
  // oldest block that no launch has pinned.
  [[nodiscard]] BlockId oldest(PageQueue queue) const {
    return queue == PageQueue::kUsed ? used_.first(OrderIndex::Mark::kFirst) : list(queue).oldest;
  }
  // The one after it; kNoBlock at the newest end. Of the used queue, the next that is not pinned.
  [[nodiscard]] BlockId newer(BlockId id) const {
    const Block& block = space_->block(id);
    return block.queue == PageQueue::kUsed ? used_.after(OrderIndex::Mark::kFirst, block.position)
                                           : block.next;
  }
  // The oldest used block that is not pinned and that no issued launch names; kNoBlock if there is
  // none.
  [[nodiscard]] BlockId oldest_unclaimed() const { return used_.first(OrderIndex::Mark::kSecond); }
  // The next one behind a block of the used queue.
  [[nodiscard]] BlockId newer_unclaimed(BlockId id) const {
    return used_.after(OrderIndex::Mark::kSecond, space_->block(id).position);
  }
  // Whether the block is one of those.
  [[nodiscard]] bool is_unclaimed(BlockId id) const {
    const Block& block = space_->block(id);
    return block.queue == PageQueue::kUsed && used_.has(OrderIndex::Mark::kSecond, block.position);
  }
  [[nodiscard]] Bytes bytes(PageQueue queue) const { return totals_[index_of(queue)].bytes; }
  [[nodiscard]] std::size_t size(PageQueue queue) const { return totals_[index_of(queue)].blocks; }

  // Counts, links and marks against the blocks themselves.
  [[nodiscard]] Status check() const;

 private:
  struct List {
    std::uint32_t oldest = kNoIndex;
    std::uint32_t newest = kNoIndex;
  };
  struct Total {
    Bytes bytes = 0;
    std::size_t blocks = 0;
  };
  // Of a used block.
  static bool may_leave(const Block& block) {
    return block.pins == 0 && block.transfer == kNoIndex && !block.host_mapped;
  }
  static std::size_t index_of(PageQueue queue) {
    assert(queue != PageQueue::kNone);
    return static_cast<std::size_t>(queue) - 1;
  }
  [[nodiscard]] const List& list(PageQueue queue) const { return lists_[index_of(queue)]; }

  Space* space_;
  PendingUses* pending_uses_;
  std::array<List, 2> lists_{};
  OrderIndex used_;
  std::array<Total, 3> totals_{};
};

static_assert(kNoBlock == kNoIndex && kNoBlock == OrderIndex::kNone,
              "an empty link, nothing in an order and no block are the same number");

}  // namespace spillway
