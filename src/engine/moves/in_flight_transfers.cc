// See in_flight_transfers.h.
#include "engine/moves/in_flight_transfers.h"

#include <cassert>
#include <unordered_map>
#include <utility>

#include "engine/broken.h"

namespace spillway {

std::uint32_t InFlightTransfers::next_slot() {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(all_.size()));
    all_.emplace_back();
  }
  return free_.back();
}

void InFlightTransfers::add(Transfer& transfer, BlockId id) {
  Block& block = space_->block(id);
  block.transfer = next_slot();
  transfer.bytes += block.bytes;
  transfer.blocks.push_back(id);
}

const Transfer& InFlightTransfers::depart(Transfer transfer, Lane& lane) {
  const std::uint32_t slot = next_slot();
  free_.pop_back();
  Flight& flight = all_[slot];
  assert(slot < 1U << kSlotBits);
  transfer.id = (++departed_ << kSlotBits) | slot;
  for (const BlockId id : transfer.blocks) {
    [[maybe_unused]] const Block& block = space_->block(id);
    // What must never happen: moving dead contents, or from where they are not.
    assert(block.transfer == slot && block.contents == Contents::kLive && block.tenants > 0);
    assert(block.copies.has(transfer.from) && block.frames.has(transfer.to));
    assert(!block.copies.has(transfer.to));
  }
  flight.transfer = std::move(transfer);
  flight.lane = &lane;
  flight.live = true;
  ++lane.in_flight;
  ++under_way_;
  return flight.transfer;
}

Transfer InFlightTransfers::land(TransferId id) {
  const auto slot = static_cast<std::uint32_t>(id) & ((1U << kSlotBits) - 1);
  assert(slot < all_.size() && all_[slot].live && all_[slot].transfer.id == id);
  Flight& flight = all_[slot];
  Transfer transfer = std::move(flight.transfer);
  flight.live = false;
  flight.transfer = {};
  free_.push_back(slot);
  --flight.lane->in_flight;
  --under_way_;
  for (const BlockId block : transfer.blocks) {
    space_->block(block).transfer = kNoIndex;
  }
  return transfer;
}

Bytes InFlightTransfers::copying_ahead_bytes() const {
  Bytes bytes = 0;
  for (const Flight& flight : all_) {
    if (flight.live && flight.transfer.cause == Cause::kPreEvict &&
        flight.transfer.from == Tier::kDevice) {
      bytes += flight.transfer.bytes;
    }
  }
  return bytes;
}

// Every batch under way has its blocks, each of them knows which it is part of, and lanes count
// what they carry.
Status InFlightTransfers::check() const {
  std::size_t under_way = 0;
  std::unordered_map<const Lane*, std::uint32_t> carried;
  std::unordered_map<BlockId, std::uint32_t> moving;
  for (std::uint32_t slot = 0; slot < all_.size(); ++slot) {
    const Flight& flight = all_[slot];
    if (!flight.live) {
      continue;
    }
    ++under_way;
    ++carried[flight.lane];
    Bytes bytes = 0;
    for (const BlockId id : flight.transfer.blocks) {
      bytes += space_->block(id).bytes;
      if (space_->block(id).transfer != slot || !moving.emplace(id, slot).second) {
        return broken(id, "moves with a transfer that it does not know of");
      }
    }
    if (bytes != flight.transfer.bytes || flight.transfer.blocks.empty()) {
      return broken_sum("of a transfer", flight.transfer.bytes, bytes);
    }
  }
  for (BlockId id = 0; id < space_->block_slots(); ++id) {
    if (space_->block(id).transfer != kNoIndex && !moving.contains(id)) {
      return broken(id, "moves with a transfer that is not under way");
    }
  }
  for (const auto& [lane, count] : carried) {
    if (lane->in_flight != count || count > lane->in_flight_max) {
      return broken("a lane counts wrongly what it carries");
    }
  }
  return under_way == under_way_ ? Status() : broken("transfers under way are counted wrongly");
}

}  // namespace spillway
