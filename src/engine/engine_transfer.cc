// Transfer batches and the frames that they fill. See engine.h.
#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/engine.h"

namespace spillway {

// --- Frames
// ----------------------------------------------------------------------------------------

void Engine::take_frame(BlockId id, Tier tier) {
  Block& block = space_.block(id);
  TierAccount& account = tiers_[index_of(tier)];
  assert(!block.frames.has(tier));
  while (account.used_bytes + block.bytes > account.capacity_bytes && drop_oldest_spare(tier)) {
  }
  assert(account.used_bytes + block.bytes <= account.capacity_bytes);
  block.frames.add(tier);
  account.used_bytes += block.bytes;
}

// Gives back the account of a frame in which nothing was ever put.
void Engine::give_up_frame(BlockId id, Tier tier) {
  Block& block = space_.block(id);
  TierAccount& account = tiers_[index_of(tier)];
  assert(block.frames.has(tier) && account.used_bytes >= block.bytes);
  remove_spare(id, tier);
  block.frames.remove(tier);
  block.copies.remove(tier);
  account.used_bytes -= block.bytes;
  account.limit_bytes = std::max(account.capacity_bytes, account.used_bytes);
}

void Engine::drop_frame(BlockId id, Tier tier) {
  assert(tier != Tier::kDevice || !space_.block(id).mapped);
  give_up_frame(id, tier);
  mechanism_->drop(id, tier);
}

// The copies in lower tiers are stale, or dead.
void Engine::drop_copies_below(BlockId id) {
  const Block& block = space_.block(id);
  for (const Tier tier : {Tier::kHost, Tier::kStorage}) {
    if (block.frames.has(tier)) {
      drop_frame(id, tier);
    }
  }
}

// --- Copies that are kept while there is room
// ------------------------------------------------------------------------

void Engine::add_spare(BlockId id, Tier tier) {
  Block& block = space_.block(id);
  TierAccount& account = tiers_[index_of(tier)];
  assert(block.copies.has(tier) && block.copies.has(Tier::kDevice));
  if (block.spare.has(tier)) {
    return;
  }
  block.spare.add(tier);
  account.spare_bytes += block.bytes;
  account.spare.push_back(id);
  // Stale entries go before they are more than the others could be.
  if (account.spare.size() > 2 * space_.block_slots() + 64) {
    std::erase_if(account.spare, [&](BlockId one) { return !space_.block(one).spare.has(tier); });
  }
}

void Engine::remove_spare(BlockId id, Tier tier) {
  Block& block = space_.block(id);
  if (block.spare.has(tier)) {
    block.spare.remove(tier);
    tiers_[index_of(tier)].spare_bytes -= block.bytes;
  }
}

bool Engine::drop_oldest_spare(Tier tier) {
  std::deque<BlockId>& spare = tiers_[index_of(tier)].spare;
  while (!spare.empty()) {
    const BlockId id = spare.front();
    spare.pop_front();
    if (space_.block(id).spare.has(tier)) {
      drop_frame(id, tier);
      return true;
    }
  }
  return false;
}

// --- Batches
// ---------------------------------------------------------------------------------------

std::uint32_t Engine::next_flight_slot() {
  if (free_flights_.empty()) {
    flights_.emplace_back();
    free_flights_.push_back(static_cast<std::uint32_t>(flights_.size() - 1));
  }
  return free_flights_.back();
}

void Engine::add_to(Transfer& transfer, std::uint32_t slot, BlockId id) {
  Block& block = space_.block(id);
  block.transfer = slot;
  transfer.bytes += block.bytes;
  transfer.blocks.push_back(id);
}

void Engine::start(std::uint32_t slot, Transfer transfer, Lane& lane) {
  assert(free_flights_.back() == slot && !transfer.blocks.empty());
  free_flights_.pop_back();
  Flight& flight = flights_[slot];
  transfer.id = (static_cast<TransferId>(++flight.generation) << 32U) | slot;
  for (const BlockId id : transfer.blocks) {
    [[maybe_unused]] const Block& block = space_.block(id);
    // What must never happen: moving dead contents, or from where they are not.
    assert(block.contents == Contents::kLive && block.tenants > 0);
    assert(block.copies.has(transfer.from) && block.frames.has(transfer.to));
    assert(!block.copies.has(transfer.to));
  }
  flight.transfer = std::move(transfer);
  flight.lane = &lane;
  flight.live = true;
  ++lane.in_flight;
  ++in_flight_;
  mechanism_->start_transfer(flight.transfer);
}

Engine::Flight Engine::take_flight(TransferId id) {
  const auto slot = static_cast<std::uint32_t>(id);
  assert(slot < flights_.size() && flights_[slot].live && flights_[slot].transfer.id == id);
  Flight flight = std::move(flights_[slot]);
  flights_[slot].live = false;
  flights_[slot].generation = flight.generation;
  flights_[slot].transfer.blocks.clear();
  free_flights_.push_back(slot);
  --flight.lane->in_flight;
  --in_flight_;
  for (const BlockId block : flight.transfer.blocks) {
    space_.block(block).transfer = kNoIndex;
  }
  return flight;
}

void Engine::transfer_finished(TransferId id) {
  const Flight flight = take_flight(id);
  const Transfer& transfer = flight.transfer;
  failures_in_a_row_ = 0;
  stats_.moved_bytes[index_of(transfer.from)][index_of(transfer.to)] += transfer.bytes;
  for (const BlockId block : transfer.blocks) {
    if (transfer.to == Tier::kDevice) {
      fetch_finished(block);
    } else if (transfer.from == Tier::kDevice) {
      eviction_finished(block, transfer.to, transfer.cause);
    } else {
      move_down_finished(block);
    }
  }
  shrink();
  pump();
  report_ready();
}

void Engine::transfer_failed(TransferId id) {
  const Flight flight = take_flight(id);
  const Transfer& transfer = flight.transfer;
  ++stats_.failed_transfers;
  if (++failures_in_a_row_ >= options_.failures_in_a_row_max && !fatal_) {
    fatal_ = Error{ErrorCode::kIo,
                   fmt::format("{} transfers in a row failed, the last from {} to {}; giving up "
                               "before data is lost",
                               failures_in_a_row_, name_of(transfer.from), name_of(transfer.to))};
  }
  for (const BlockId block : transfer.blocks) {
    if (transfer.to == Tier::kDevice) {
      fetch_failed(block);
    } else if (transfer.from == Tier::kDevice) {
      eviction_failed(block, transfer.to, transfer.cause);
    } else {
      move_down_failed(block);
    }
  }
  shrink();
  pump();
  report_ready();
}

}  // namespace spillway
