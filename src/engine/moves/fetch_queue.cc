// See fetch_queue.h.
#include "engine/moves/fetch_queue.h"

#include <algorithm>
#include <cassert>

#include "engine/broken.h"
#include "engine/memory/stale_entries.h"

namespace spillway {

void FetchQueue::add(BlockId id, FetchState priority) {
  Block& block = space_->block(id);
  assert(block.transfer == kNoIndex && !block.copies.has(Tier::kDevice));
  remove(block);
  block.fetch = priority;
  bytes_[index_of(priority)] += block.bytes;
  const Source source = source_of(block);
  std::deque<Wish>& all = queue(priority, source);
  all.push_back({.block = id, .order = ++order_});
  forget_stale_entries(
      all, space_->block_slots(), [](const Wish& wish) { return wish.block; },
      [&](const Wish& wish) { return stale(wish, priority, source); });
}

// The entry in the queue stays behind and is skipped when it comes up.
void FetchQueue::remove(Block& block) {
  if (block.fetch != FetchState::kNone) {
    bytes_[index_of(block.fetch)] -= block.bytes;
    block.fetch = FetchState::kNone;
  }
}

bool FetchQueue::stale(const Wish& wish, FetchState priority, Source source) const {
  const Block& block = space_->block(wish.block);
  return block.fetch != priority || source_of(block) != source;
}

std::optional<BlockId> FetchQueue::front(FetchState priority, Source source, std::uint64_t limit) {
  std::deque<Wish>& all = queue(priority, source);
  while (!all.empty() && all.front().order < limit) {
    if (!stale(all.front(), priority, source)) {
      return all.front().block;
    }
    all.pop_front();
  }
  return std::nullopt;
}

Bytes FetchQueue::first_fault_bytes() const {
  Bytes largest_bytes = 0;
  for (const Source source : {Source::kZeros, Source::kHostCopy, Source::kStorageCopy}) {
    const std::deque<Wish>& all =
        queues_[index_of(FetchState::kFault)][static_cast<std::size_t>(source)];
    const auto first = std::find_if(all.begin(), all.end(), [&](const Wish& wish) {
      return !stale(wish, FetchState::kFault, source);
    });
    if (first != all.end()) {
      largest_bytes = std::max<Bytes>(largest_bytes, space_->block(first->block).bytes);
    }
  }
  return largest_bytes;
}

void FetchQueue::pop(FetchState priority, Source source) {
  std::deque<Wish>& all = queue(priority, source);
  remove(space_->block(all.front().block));
  all.pop_front();
}

Status FetchQueue::check() const {
  std::array<Bytes, 2> bytes{};
  for (BlockId id = 0; id < space_->block_slots(); ++id) {
    const Block& block = space_->block(id);
    if (block.fetch == FetchState::kNone) {
      continue;
    }
    bytes[index_of(block.fetch)] += block.bytes;
    if (block.copies.has(Tier::kDevice) || block.transfer != kNoIndex) {
      return broken(id, "waits to be fetched while it is resident or moving");
    }
  }
  if (bytes[0] != bytes_[0]) {
    return broken_sum("waiting for faults", bytes_[0], bytes[0]);
  }
  if (bytes[1] != bytes_[1]) {
    return broken_sum("waiting to be prefetched", bytes_[1], bytes[1]);
  }
  return {};
}

}  // namespace spillway
