// See page_queues.h.
#include "engine/memory/page_queues.h"

#include "engine/broken.h"

namespace spillway {

void PageQueues::push(PageQueue queue, BlockId id) {
  remove(id);
  Block& block = space_->block(id);
  block.queue = queue;
  Total& total = totals_[index_of(queue)];
  total.bytes += block.bytes;
  ++total.blocks;
  if (queue == PageQueue::kUsed) {
    block.position = used_.append(
        id, [&](BlockId moved, std::uint32_t to) { space_->block(moved).position = to; });
    update(id);
    return;
  }
  List& list = lists_[index_of(queue)];
  block.previous = list.newest;
  block.next = kNoIndex;
  (list.newest != kNoIndex ? space_->block(list.newest).next : list.oldest) = id;
  list.newest = id;
}

void PageQueues::remove(BlockId id) {
  Block& block = space_->block(id);
  if (block.queue == PageQueue::kNone) {
    return;
  }
  Total& total = totals_[index_of(block.queue)];
  total.bytes -= block.bytes;
  --total.blocks;
  if (block.queue == PageQueue::kUsed) {
    pending_uses_->set_may_leave(id, false);
    used_.remove(block.position);
  } else {
    List& list = lists_[index_of(block.queue)];
    (block.previous != kNoIndex ? space_->block(block.previous).next : list.oldest) = block.next;
    (block.next != kNoIndex ? space_->block(block.next).previous : list.newest) = block.previous;
    block.previous = block.next = kNoIndex;
  }
  block.queue = PageQueue::kNone;
}

void PageQueues::update(BlockId id) {
  const Block& block = space_->block(id);
  if (block.queue != PageQueue::kUsed) {
    return;
  }
  const bool free = may_leave(block);
  used_.set(OrderIndex::Mark::kFirst, block.position, free);
  used_.set(OrderIndex::Mark::kSecond, block.position, free && block.first_claim == kNoIndex);
  pending_uses_->set_may_leave(id, free);
}

Status PageQueues::check() const {
  std::array<Total, 3> totals{};
  for (BlockId id = 0; id < space_->block_slots(); ++id) {
    const Block& block = space_->block(id);
    if (block.queue == PageQueue::kNone) {
      continue;
    }
    totals[index_of(block.queue)].bytes += block.bytes;
    ++totals[index_of(block.queue)].blocks;
    if (block.queue != PageQueue::kUsed) {
      continue;
    }
    if (used_.value(block.position) != id) {
      return broken(id, "somebody else has its place in the order of used blocks");
    }
    const bool free = may_leave(block);
    if (used_.has(OrderIndex::Mark::kFirst, block.position) != free ||
        used_.has(OrderIndex::Mark::kSecond, block.position) !=
            (free && block.first_claim == kNoIndex)) {
      return broken(id, "its marks in the order of used blocks are wrong");
    }
  }
  for (std::size_t queue = 0; queue < totals.size(); ++queue) {
    if (totals[queue].bytes != totals_[queue].bytes ||
        totals[queue].blocks != totals_[queue].blocks) {
      return broken("a page queue lost blocks");
    }
  }
  if (used_.size() != totals[index_of(PageQueue::kUsed)].blocks) {
    return broken("the order of used blocks holds others");
  }
  for (const PageQueue queue : {PageQueue::kUnused, PageQueue::kDiscarded}) {
    std::size_t blocks = 0;
    for (BlockId id = list(queue).oldest; id != kNoBlock; id = space_->block(id).next) {
      if (space_->block(id).queue != queue || ++blocks > size(queue)) {
        return broken(id, "the links of its page queue are wrong");
      }
    }
    if (blocks != size(queue)) {
      return broken("a page queue's links lost blocks");
    }
  }
  return {};
}

}  // namespace spillway
