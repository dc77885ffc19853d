// Transfer batches and the frames that they fill. See engine.h.
#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/engine.h"

namespace spillway {

// --- Frames -------------------------------------------------------------------------------------

void Engine::take_frame(BlockId id, Tier tier) {
  while (true) {
    const std::optional<BlockId> spare = tiers_.spare_in_the_way(tier, space_.block(id).bytes);
    if (!spare) {
      break;
    }
    drop_frame(*spare, tier);
  }
  tiers_.take(id, tier);
  if (frame_has_size(id, tier)) {
    (void)free_frames_.take(space_.block(id).bytes);
    forget_free_frames();
  }
}

bool Engine::frame_has_size(BlockId id, Tier tier) const {
  return tier == Tier::kDevice && options_.frames_have_sizes && !space_.block(id).host_mapped;
}

// The platform has no more of them than there is room.
void Engine::forget_free_frames() {
  while (free_frames_.bytes() > free_bytes(Tier::kDevice)) {
    (void)free_frames_.take_oldest();
  }
}

void Engine::drop_frame(BlockId id, Tier tier) {
  assert(tier != Tier::kDevice || !space_.block(id).mapped);
  tiers_.give_back(id, tier);
  if (frame_has_size(id, tier)) {
    free_frames_.add(space_.block(id).bytes);
    forget_free_frames();
  }
  batch_.drop(id, tier);
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

void Engine::drop_spare_copies(BlockId id) {
  for (const Tier tier : {Tier::kHost, Tier::kStorage}) {
    if (space_.block(id).spare.has(tier)) {
      drop_frame(id, tier);
    }
  }
}

// --- What launches write that do not name it ----------------------------------------------------

void Engine::expose_block(BlockId id) {
  Block& block = space_.block(id);
  block.exposed = true;
  if (block.mapped && block.contents == Contents::kUndefined) {
    block.contents = Contents::kLive;
  }
  if (exposed_.is_reached()) {
    may_be_written(id);
  } else {
    exposed_.add_if_clean(id);
  }
}

// By a launch that does not name it, while it is on the device. What was to leave with what is
// below stays: the platform may leave it where it is until its frame is wanted.
void Engine::may_be_written(BlockId id) {
  if (space_.block(id).queue == PageQueue::kUnused) {
    make_usable(id);
  } else {
    drop_spare_copies(id);
  }
}

// A launch that may write all that is exposed is admitted: of that nothing on the device is what
// its copies below are. What comes while it runs keeps none.
void Engine::reach() {
  for (const BlockId id : exposed_.reach()) {
    if (space_.block(id).exposed) {  // it may be another's by now
      may_be_written(id);
    }
  }
}

// --- Batches ------------------------------------------------------------------------------------

void Engine::start(Transfer transfer, Lane& lane) {
  assert(!transfer.blocks.empty());
  transfer.reached = exposed_.times();
  const Transfer& started = in_flight_transfers_.depart(std::move(transfer), lane);
  if (options_.release_early && started.to == Tier::kDevice) {
    for (const BlockId id : started.blocks) {
      space_.block(id).mapped = space_.block(id).writable = true;
      batch_.map(id, true);
    }
    submitted(started);
  }
  batch_.now().start_transfer(started);
}

void Engine::transfer_finished(TransferId id) {
  const Transfer transfer = in_flight_transfers_.land(id);
  failures_in_a_row_ = 0;
  stats_.moved_bytes[index_of(transfer.from)][index_of(transfer.to)] += transfer.bytes;
  const bool reached = exposed_.was_reached_since(transfer.reached);
  for (const BlockId block : transfer.blocks) {
    if (transfer.to == Tier::kDevice) {
      fetch_finished(block, reached);
    } else if (transfer.from == Tier::kDevice) {
      eviction_finished(block, transfer.to, transfer.cause, reached);
    } else {
      move_below_ended(block, transfer.from, transfer.to, true);
    }
    if (space_.block(block).at_host) {
      bring_to_host(block);
    }
  }
  shrink();
  pump();
  settle();
}

void Engine::transfer_failed(TransferId id) {
  const Transfer transfer = in_flight_transfers_.land(id);
  ++stats_.failed_transfers;
  // What was to be host-mapped had no memory there, and goes to the device: nothing is lost.
  const bool host_mapped =
      transfer.to == Tier::kDevice &&
      std::any_of(transfer.blocks.begin(), transfer.blocks.end(),
                  [this](BlockId block) { return space_.block(block).host_mapped; });
  failures_in_a_row_ += host_mapped ? 0 : 1;
  if (failures_in_a_row_ >= options_.failures_in_a_row_max && !fatal_) {
    fatal_ = Error{ErrorCode::kIo,
                   fmt::format("{} transfers in a row failed, the last from {} to {}; giving up "
                               "before data is lost",
                               failures_in_a_row_, name_of(transfer.from), name_of(transfer.to))};
  }
  for (const BlockId block : transfer.blocks) {
    if (transfer.to == Tier::kDevice) {
      fetch_failed(block, id);
    } else if (transfer.from == Tier::kDevice) {
      eviction_failed(block, transfer.to, transfer.cause);
    } else {
      move_below_ended(block, transfer.from, transfer.to, false);
    }
    if (space_.block(block).at_host) {
      bring_to_host(block);
    }
  }
  shrink();
  pump();
  settle();
}

}  // namespace spillway
