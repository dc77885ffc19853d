// See updates.h.
#include "engine/updates.h"

#include <algorithm>
#include <cassert>

#include "engine/broken.h"
#include "engine/for_each_block.h"
#include "engine/pins.h"

namespace spillway {

void Updates::pin(BlockId id) {
  Block& block = space_->block(id);
  assert(block.at_host || block.pins == 0);
  ++block.pins;
  bytes_ += block.at_host ? 0 : block.bytes;
  block.at_host = true;
}

bool Updates::unpin(BlockId id) {
  Block& block = space_->block(id);
  assert(block.at_host && block.pins > 0);
  if (--block.pins > 0) {
    return false;
  }
  block.at_host = false;
  bytes_ -= block.bytes;
  return true;
}

Bytes Updates::more_bytes(const Launch& launch) const { return bytes_not_at_host(launch, *space_); }

void Updates::claim(const Launch& launch) {
  for_each_block(launch, [this](BlockId id, const Access& /*access*/) { ++claims_[id]; });
}

void Updates::end_claim(const Launch& launch) {
  for_each_block(launch, [this](BlockId id, const Access& /*access*/) {
    const auto found = claims_.find(id);
    if (--found->second == 0) {
      claims_.erase(found);
    }
  });
}

void Updates::hold_for(std::uint32_t slot, const LaunchTable& launches) {
  slot_ = slot;
  held_.clear();
  if (slot_ != kNoIndex) {
    for_each_block(launches.at(slot_).launch,
                   [this](BlockId id, const Access& /*access*/) { held_.insert(id); });
  }
}

void Updates::wait_for_room(BlockId id) { without_room_.push_back(id); }

BlockId Updates::first_without_room() const {
  return without_room_.empty() ? kNoBlock : without_room_.front();
}

std::optional<BlockId> Updates::take_fetch() {
  if (to_fetch_.empty()) {
    return std::nullopt;
  }
  const BlockId id = to_fetch_.front();
  to_fetch_.pop_front();
  return id;
}

bool Updates::brings(BlockId id) const {
  return std::count(without_room_.begin(), without_room_.end(), id) +
             std::count(to_fetch_.begin(), to_fetch_.end(), id) >
         0;
}

bool Updates::forget(BlockId id) {
  std::erase(without_room_, id);
  return std::erase(to_fetch_, id) > 0;
}

Status Updates::check() const {
  Bytes used = 0;
  for (BlockId id = 0; id < space_->block_slots(); ++id) {
    const Block& block = space_->block(id);
    used += block.at_host ? block.bytes : 0;
    if (block.at_host && (block.pins == 0 || block.fixed > 0)) {
      return broken(id, "an update uses it, and nothing pins it, or it is fixed on the device");
    }
    if (block.at_host && block.fetch != FetchState::kNone) {
      return broken(id, "an update uses it, and it is wanted on the device");
    }
  }
  if (used != bytes_) {
    return broken_sum("used by updates", bytes_, used);
  }
  // What waits is on the device, in storage, or nowhere yet, and nothing of it moves.
  for (const std::deque<BlockId>* const queue : {&without_room_, &to_fetch_}) {
    for (const BlockId id : *queue) {
      const Block& block = space_->block(id);
      if (!block.at_host || block.transfer != kNoIndex || block.evicting ||
          block.copies.has(Tier::kHost) || std::count(queue->begin(), queue->end(), id) != 1) {
        return broken(id, "waits to come to host memory, and needs not");
      }
    }
  }
  return {};
}

}  // namespace spillway
