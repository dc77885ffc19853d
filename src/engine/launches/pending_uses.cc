// See pending_uses.h.
#include "engine/launches/pending_uses.h"

#include <cassert>

#include "engine/broken.h"

namespace spillway {

void PendingUses::issued(std::uint32_t slot) {
  LaunchTable::Record& record = launches_->at(slot);
  record.first_listed = kNoIndex;
  record.position = order_.append(slot, [this](std::uint32_t moved, std::uint32_t position) {
    launches_->at(moved).position = position;
  });
  order_.set(kIssuedOnly, record.position, true);
}

bool PendingUses::add(BlockId id, std::uint32_t slot) {
  std::uint32_t node = free_claim_;
  if (node == kNoIndex) {
    node = static_cast<std::uint32_t>(pending_uses_.size());
    pending_uses_.emplace_back();
  } else {
    free_claim_ = pending_uses_[node].next;
  }
  pending_uses_[node] = {.launch = launches_->at(slot).launch.id, .next = kNoIndex};
  Block& block = space_->block(id);
  const bool first = block.first_claim == kNoIndex;
  (first ? block.first_claim : pending_uses_[block.last_claim].next) = node;
  block.last_claim = node;
  return first;
}

void PendingUses::admitted(std::uint32_t slot) {
  assert(launches_->at(slot).first_listed == kNoIndex);
  order_.remove(launches_->at(slot).position);
}

// Uses by launches that were admitted out of order stay in the middle until they come up.
void PendingUses::settle(BlockId id) {
  Block& block = space_->block(id);
  assert(!block.listed);
  while (block.first_claim != kNoIndex &&
         !launches_->is_at(pending_uses_[block.first_claim].launch, LaunchStage::kIssued)) {
    const std::uint32_t node = block.first_claim;
    block.first_claim = pending_uses_[node].next;
    pending_uses_[node].next = free_claim_;
    free_claim_ = node;
  }
  if (block.first_claim == kNoIndex) {
    block.last_claim = kNoIndex;
  }
}

void PendingUses::set_may_leave(BlockId id, bool may) {
  const Block& block = space_->block(id);
  const bool listed = may && block.first_claim != kNoIndex;
  if (listed != block.listed) {
    listed ? list(id) : unlist(id);
  }
}

void PendingUses::list(BlockId id) {
  Block& block = space_->block(id);
  LaunchTable::Record& record = launches_->at(next_slot(block));
  block.previous = kNoIndex;
  block.next = record.first_listed;
  if (block.next != kNoIndex) {
    space_->block(block.next).previous = id;
  } else {
    order_.set(kHasListed, record.position, true);
  }
  record.first_listed = id;
  block.listed = true;
}

void PendingUses::unlist(BlockId id) {
  Block& block = space_->block(id);
  LaunchTable::Record& record = launches_->at(next_slot(block));
  (block.previous != kNoIndex ? space_->block(block.previous).next : record.first_listed) =
      block.next;
  if (block.next != kNoIndex) {
    space_->block(block.next).previous = block.previous;
  }
  if (record.first_listed == kNoIndex) {
    order_.set(kHasListed, record.position, false);
  }
  block.previous = block.next = kNoIndex;
  block.listed = false;
}

LaunchSeq PendingUses::next_use(BlockId id) const {
  const Block& block = space_->block(id);
  return block.first_claim == kNoIndex ? kNever : launches_->at(next_slot(block)).launch.seq;
}

LaunchId PendingUses::next_launch(BlockId id) const {
  const Block& block = space_->block(id);
  return block.first_claim == kNoIndex ? kNoLaunch : pending_uses_[block.first_claim].launch;
}

LaunchId PendingUses::last_launch(BlockId id) const {
  const Block& block = space_->block(id);
  return block.last_claim == kNoIndex ? kNoLaunch : pending_uses_[block.last_claim].launch;
}

const Launch* PendingUses::issued_only(LaunchId id) const {
  return launches_->is_at(id, LaunchStage::kIssued)
             ? &launches_->at(LaunchTable::slot_of(id)).launch
             : nullptr;
}

BlockId PendingUses::needed_last() const {
  const std::uint32_t slot = order_.last(kHasListed);
  return slot == OrderIndex::kNone ? kNoBlock : launches_->at(slot).first_listed;
}

const Launch* PendingUses::next_issued(LaunchId after) const {
  const std::uint32_t slot =
      launches_->is_at(after, LaunchStage::kIssued)
          ? order_.after(kIssuedOnly, launches_->at(LaunchTable::slot_of(after)).position)
          : order_.first(kIssuedOnly);
  return slot == OrderIndex::kNone ? nullptr : &launches_->at(slot).launch;
}

Status PendingUses::check() const {
  for (BlockId id = 0; id < space_->block_slots(); ++id) {
    const Block& block = space_->block(id);
    const bool may_leave = block.queue == PageQueue::kUsed && block.pins == 0 &&
                           block.transfer == kNoIndex && !block.host_mapped;
    if (block.listed != (may_leave && block.first_claim != kNoIndex)) {
      return broken(id, "listed with its next launch, and should not be, or the reverse");
    }
    if (block.first_claim != kNoIndex &&
        !launches_->is_at(pending_uses_[block.first_claim].launch, LaunchStage::kIssued)) {
      return broken(id, "claimed first by a launch that is not waiting");
    }
    if (block.first_claim == kNoIndex && block.last_claim != kNoIndex) {
      return broken(id, "claims have an end and no beginning");
    }
  }
  LaunchSeq last = 0;
  for (std::uint32_t slot = order_.first(kIssuedOnly); slot != OrderIndex::kNone;
       slot = order_.after(kIssuedOnly, launches_->at(slot).position)) {
    const LaunchTable::Record& record = launches_->at(slot);
    if (record.stage != LaunchStage::kIssued || record.launch.seq <= last) {
      return broken("launches that wait for admission are not in the order of issue");
    }
    last = record.launch.seq;
    if (order_.has(kHasListed, record.position) != (record.first_listed != kNoIndex)) {
      return broken("a launch's list of blocks is not marked as what it is");
    }
  }
  return {};
}

}  // namespace spillway
