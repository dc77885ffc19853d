// The device's page queues: unused, discarded and used frames, in the order in which they are
// reclaimed (UVM Discard section 5.5). Layer: engine.
// Free frames need no queue: they are the capacity that no block holds. Links live in the blocks,
// so every operation is O(1) and allocates nothing.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>

#include "engine/space.h"

namespace spillway {

class PageQueues {
 public:
  explicit PageQueues(Space& space) : space_(&space) {}

  // The block joins the queue at its newest end; leaves the one it was in.
  void push(PageQueue queue, BlockId id) {
    remove(id);
    Block& block = space_->block(id);
    List& list = lists_[index_of(queue)];
    block.queue = queue;
    block.previous = list.newest;
    block.next = kNoIndex;
    if (list.newest != kNoIndex) {
      space_->block(list.newest).next = id;
    } else {
      list.oldest = id;
    }
    list.newest = id;
    list.bytes += block.bytes;
    ++list.blocks;
  }

  // Leaves its queue, if it is in one.
  void remove(BlockId id) {
    Block& block = space_->block(id);
    if (block.queue == PageQueue::kNone) {
      return;
    }
    List& list = lists_[index_of(block.queue)];
    (block.previous != kNoIndex ? space_->block(block.previous).next : list.oldest) = block.next;
    (block.next != kNoIndex ? space_->block(block.next).previous : list.newest) = block.previous;
    list.bytes -= block.bytes;
    --list.blocks;
    block.previous = block.next = kNoIndex;
    block.queue = PageQueue::kNone;
  }

  // The end that is reclaimed first; kNoBlock where the queue is empty.
  [[nodiscard]] BlockId oldest(PageQueue queue) const { return lists_[index_of(queue)].oldest; }
  // The one after it; kNoBlock at the newest end.
  [[nodiscard]] BlockId newer(BlockId id) const { return space_->block(id).next; }
  [[nodiscard]] Bytes bytes(PageQueue queue) const { return lists_[index_of(queue)].bytes; }
  [[nodiscard]] std::size_t size(PageQueue queue) const { return lists_[index_of(queue)].blocks; }

 private:
  struct List {
    std::uint32_t oldest = kNoIndex;
    std::uint32_t newest = kNoIndex;
    Bytes bytes = 0;
    std::size_t blocks = 0;
  };
  static std::size_t index_of(PageQueue queue) {
    assert(queue != PageQueue::kNone);
    return static_cast<std::size_t>(queue) - 1;
  }

  Space* space_;
  std::array<List, 3> lists_{};
};

static_assert(kNoBlock == kNoIndex, "an empty link and no block are the same number");

}  // namespace spillway
