// See updates.h.
#include "engine/launches/updates.h"

#include <algorithm>
#include <cassert>

#include "engine/broken.h"
#include "engine/launches/pins.h"
#include "engine/memory/for_each_block.h"

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

// --- Who uses what -------------------------------------------------------------------------------

void Updates::issued(std::uint32_t slot, const Launch& launch) {
  ++in_flight_;
  candidates_.emplace(launch.seq, slot);
  for_each_block(launch, [&](BlockId id, const Access& access) {
    uses_[id].push_back({.slot = slot, .waits = true, .seq = launch.seq, .access = access});
  });
}

void Updates::admitted(std::uint32_t slot, const Launch& launch) {
  candidates_.erase({launch.seq, slot});
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    for (Use& use : uses_.at(id)) {
      use.waits = use.waits && use.slot != slot;
    }
  });
}

void Updates::gone(std::uint32_t slot, const Launch& launch) {
  --in_flight_;
  candidates_.erase({launch.seq, slot});
  if (const auto found = standing_.find(slot); found != standing_.end()) {
    std::erase(stand_at_.at(found->second.block), slot);
    standing_.erase(found);
  }
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    const auto found = uses_.find(id);
    if (found == uses_.end()) {
      return;  // named twice
    }
    std::erase_if(found->second, [slot](const Use& use) { return use.slot == slot; });
    if (found->second.empty()) {
      uses_.erase(found);
    }
    let_go(id);
  });
}

bool Updates::waits_before(BlockId id, LaunchSeq seq) const {
  const auto found = uses_.find(id);
  return found != uses_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [seq](const Use& use) { return use.waits && use.seq < seq; });
}

namespace {

bool meet(const Access& one, const Access& other) {
  if (one.allocation != other.allocation) {
    return false;  // in a frame that they share
  }
  const bool known = one.to_bytes > 0 && other.to_bytes > 0;
  return !known || (one.from_bytes < other.to_bytes && other.from_bytes < one.to_bytes);
}

}  // namespace

bool Updates::behind_another(BlockId id, const Access& access, LaunchSeq seq) const {
  const auto found = uses_.find(id);
  return found != uses_.end() &&
         std::any_of(found->second.begin(), found->second.end(), [&](const Use& use) {
           return use.seq < seq && (writes(use.access.mode) || writes(access.mode)) &&
                  meet(use.access, access);
         });
}

// --- Admission -----------------------------------------------------------------------------------

void Updates::stand_at(std::uint32_t slot, LaunchSeq seq, BlockId id) {
  candidates_.erase({seq, slot});
  standing_[slot] = {.block = id, .seq = seq};
  stand_at_[id].push_back(slot);
}

void Updates::let_go(BlockId id) {
  const auto found = stand_at_.find(id);
  if (found == stand_at_.end()) {
    return;
  }
  for (const std::uint32_t slot : found->second) {
    const auto standing = standing_.find(slot);
    candidates_.emplace(standing->second.seq, slot);
    standing_.erase(standing);
  }
  stand_at_.erase(found);
}

// --- Host memory ---------------------------------------------------------------------------------

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
