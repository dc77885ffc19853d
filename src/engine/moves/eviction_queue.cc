// See eviction_queue.h.
#include "engine/moves/eviction_queue.h"

#include <cassert>

#include "engine/broken.h"
#include "engine/memory/stale_entries.h"

namespace spillway {

void EvictionQueue::push(Cause cause, Tier to, BlockId id) {
  std::deque<BlockId>& queue = queues_[index_of_queue(cause)][index_of(to)];
  queue.push_back(id);
  forget_stale_entries(
      queue, space_->block_slots(), [](BlockId one) { return one; },
      [&](BlockId one) { return stale(cause, to, one); });
}

void EvictionQueue::promise(BlockId id, Tier to) {
  Block& block = space_->block(id);
  assert(!block.evicting);
  block.evicting = true;
  promised_bytes_ += block.bytes;
  push(Cause::kEvict, to, id);
}

void EvictionQueue::take_back_promise(Block& block) {
  assert(block.evicting);
  block.evicting = false;
  promised_bytes_ -= block.bytes;
}

void EvictionQueue::wish(BlockId id, Tier to, bool stays) {
  Block& block = space_->block(id);
  take_back_wish(block);
  block.wished_out = true;
  block.wished_to = to;
  block.stays = stays;
  ahead_bytes_[index_of(to)] += block.bytes;
  push(Cause::kPreEvict, to, id);
}

void EvictionQueue::take_back_wish(Block& block) {
  if (block.wished_out) {
    block.wished_out = false;
    ahead_bytes_[index_of(block.wished_to)] -= block.bytes;
  }
}

// Cancelled since, or chosen again for the other tier.
bool EvictionQueue::stale(Cause cause, Tier to, BlockId id) const {
  const Block& block = space_->block(id);
  return cause == Cause::kEvict
             ? !block.evicting || block.transfer != kNoIndex || !block.frames.has(to)
             : !block.wished_out || block.wished_to != to;
}

std::optional<BlockId> EvictionQueue::take(Cause cause, Tier to) {
  std::deque<BlockId>& queue = queues_[index_of_queue(cause)][index_of(to)];
  while (!queue.empty()) {
    const BlockId id = queue.front();
    queue.pop_front();
    if (!stale(cause, to, id)) {
      return id;
    }
  }
  return std::nullopt;
}

void EvictionQueue::wish_down(BlockId id) {
  down_.push_back(id);
  forget_stale_entries(
      down_, space_->block_slots(), [](BlockId one) { return one; },
      [&](BlockId one) {
        const Block& block = space_->block(one);
        return block.frames.has(Tier::kDevice) || block.frames.has(Tier::kStorage) ||
               block.bytes == 0;
      });
}

std::optional<BlockId> EvictionQueue::take_down() {
  if (down_.empty()) {
    return std::nullopt;
  }
  const BlockId id = down_.front();
  down_.pop_front();
  return id;
}

Status EvictionQueue::check(Bytes copying_bytes) const {
  Bytes promised = 0;
  Bytes ahead = copying_bytes;
  for (BlockId id = 0; id < space_->block_slots(); ++id) {
    const Block& block = space_->block(id);
    promised += block.evicting ? block.bytes : 0;
    ahead += block.wished_out ? block.bytes : 0;
  }
  if (promised != promised_bytes_) {
    return broken_sum("promised by victims", promised_bytes_, promised);
  }
  Bytes counted = 0;
  for (const Bytes bytes : ahead_bytes_) {
    counted += bytes;
  }
  if (ahead != counted) {
    return broken_sum("copied ahead of need", counted, ahead);
  }
  return {};
}

}  // namespace spillway
