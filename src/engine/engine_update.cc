// Updates: launches that run on the processor, next to their data in host memory (Launch::runs_at).
// See engine.h; docs/engine.md, "Updates", has the life of one. A block is used on the device or in
// host memory, never in both: who comes second waits until the other has ended.
#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/memory/for_each_block.h"

namespace spillway {

// --- Admission ----------------------------------------------------------------------------------

// Whether a launch on the device has to wait for updates: for those that are admitted, and for
// those that were issued before it and are not.
bool Engine::meets_update(const Launch& launch) const {
  if (!updates_.any()) {
    return false;
  }
  for (const Access& access : launch.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const BlockId id = access.first_block + i;
      if (space_.block(id).at_host || updates_.waits_before(id, launch.seq)) {
        return true;
      }
    }
  }
  return false;
}

// Whether the update has to wait for this block of its: launches that were issued before it use it,
// or will.
bool Engine::in_the_way(BlockId id, const Access& access, LaunchSeq update) const {
  return pinned_on_device(space_.block(id)) || pending_uses_.next_use(id) < update ||
         updates_.behind_another(id, access, update);
}

// The first such block; kNoBlock if there is none.
BlockId Engine::in_the_way_of(const Launch& update) const {
  for (const Access& access : update.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      if (in_the_way(access.first_block + i, access, update.seq)) {
        return access.first_block + i;
      }
    }
  }
  return kNoBlock;
}

// Host memory has to hold what all admitted updates use.
bool Engine::has_room_at_host(const Launch& update) const {
  return updates_.bytes() == 0 ||
         updates_.bytes() + updates_.more_bytes(update) <= capacity_bytes(Tier::kHost);
}

// Each as soon as its data is free for it, whatever else was issued before. Those for which host
// memory has no room now hold back those behind them, so that they do not starve.
bool Engine::admit_next_update() {
  for (std::uint32_t slot = updates_.next(); slot != kNoIndex; slot = updates_.next()) {
    const Launch& launch = launches_.at(slot).launch;
    if (const BlockId id = in_the_way_of(launch); id != kNoBlock) {
      updates_.stand_at(slot, launch.seq, id);
      continue;
    }
    if (!has_room_at_host(launch)) {
      return false;
    }
    admit_update(slot);
    return true;
  }
  return false;
}

void Engine::admit_update(std::uint32_t slot) {
  LaunchTable::Record& record = launches_.at(slot);
  record.stage = LaunchStage::kAdmitted;
  ++admitted_;
  updates_.admitted(slot, record.launch);
  updates_ahead_.over(record.launch);
  for (std::size_t i = 0; i < record.launch.accesses.size(); ++i) {
    const Access& access = record.launch.accesses[i];
    for (std::uint32_t k = 0; k < access.block_count; ++k) {
      const BlockId id = access.first_block + k;
      Block& block = space_.block(id);
      block.epoch = std::max(block.epoch, record.epochs[i]);
      block.retired = false;
      const bool first = !block.at_host;
      updates_.pin(id);
      evictions_.take_back_wish(block);
      if (first) {
        queues_.update(id);
        if (block.transfer == kNoIndex) {
          bring_to_host(id);
        }
      }
      if (!ready_at_host(block)) {
        waiters_.add(block, {.launch_slot = slot, .faulted = false});
        ++record.missing;
        ++record.unsubmitted;
      }
    }
  }
  policy_->on_update(UpdateStage::kAdmitted, record.launch, *this);
  pump();
  if (admission_ != nullptr && admission_->id == record.launch.id) {
    admission_->missing_blocks = record.missing;
  }
  release_if_ready(slot);
}

// --- Room that is kept for those that must not fail ----------------------------------------------

// What the update needs of host memory beside what is there, or kept, for its blocks already.
Bytes Engine::more_kept_bytes(const Launch& update) const {
  std::vector<BlockId> blocks;
  for_each_block(update, [&](BlockId id, const Access& /*access*/) { blocks.push_back(id); });
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  Bytes bytes = 0;
  for (const BlockId id : blocks) {
    bytes += tiers_.bytes_to_keep(id);
  }
  return bytes;
}

void Engine::keep_room(const Launch& update) {
  if (options_.updates_are_certain) {
    for_each_block(update, [&](BlockId id, const Access& /*access*/) { tiers_.keep_room(id); });
  }
}

void Engine::end_keeping_room(const Launch& update) {
  if (options_.updates_are_certain) {
    for_each_block(update, [&](BlockId id, const Access& /*access*/) {
      if (!updates_.names(id)) {
        tiers_.end_keeping_room(id);
      }
    });
  }
}

// --- To host memory ------------------------------------------------------------------------------

bool Engine::ready_at_host(const Block& block) {
  return block.at_host && block.transfer == kNoIndex && block.copies.has(Tier::kHost) &&
         !block.frames.has(Tier::kDevice);
}

// An update uses the block, and nothing of it moves: it is there, or what brings it begins as soon
// as there is room.
void Engine::bring_to_host(BlockId id) {
  Block& block = space_.block(id);
  assert(block.at_host && block.transfer == kNoIndex);
  fetches_.remove(block);
  if (block.evicting) {
    if (block.frames.has(Tier::kHost)) {
      return;  // chosen as a victim, and about to leave for there
    }
    cancel_eviction(id);
  }
  const bool dead = block.contents != Contents::kLive;
  if (dead) {
    drop_copies_below(id);
    block.contents = Contents::kUndefined;
  }
  if (dead || block.copies.has(Tier::kHost)) {
    lose_device_frame(id);
    if (block.host_mapped) {
      tiers_.end_host_mapped(id);
    }
  }
  if (ready_at_host(block)) {
    wake_update(id);
    return;
  }
  updates_.wait_for_room(id);
}

// In the order in which they came, as room is found.
void Engine::form_update_moves() {
  for (BlockId id = updates_.first_without_room(); id != kNoBlock;
       id = updates_.first_without_room()) {
    Block& block = space_.block(id);
    if (tiers_.room_for(id, Tier::kHost) < block.bytes && !make_room_at_host(id)) {
      break;
    }
    updates_.room_found();
    take_frame(id, Tier::kHost);
    if (block.contents != Contents::kLive) {
      batch_.now().zero_at_host({&id, 1});
      block.copies.add(Tier::kHost);
      wake_update(id);
    } else if (block.copies.has(Tier::kDevice)) {
      queues_.remove(id);
      if (block.mapped) {
        unmap(id);
      }
      evictions_.promise(id, Tier::kHost);
    } else {
      updates_.fetch(id);
    }
  }
  while (!update_lane_.full()) {
    Transfer transfer{.from = Tier::kStorage, .to = Tier::kHost, .cause = Cause::kFault};
    while (transfer.bytes < options_.storage_batch_bytes) {
      const std::optional<BlockId> id = updates_.take_fetch();
      if (!id) {
        break;
      }
      in_flight_transfers_.add(transfer, *id);
    }
    if (transfer.blocks.empty()) {
      return;
    }
    start(std::move(transfer), update_lane_);
  }
}

bool Engine::make_room_at_host(BlockId incoming) {
  const Bytes bytes = space_.block(incoming).bytes;
  move_out_of_host(std::max<Bytes>(bytes, options_.storage_batch_bytes), incoming);
  return tiers_.room_for(incoming, Tier::kHost) >= bytes;
}

void Engine::make_room_for_updates(Bytes bytes) {
  move_out_of_host(bytes, kNoBlock);
  settle();
}

// Blocks that nobody uses go from host memory to storage until so much is free, while none is on
// its way there. What lies in storage as well is gone at once.
void Engine::move_out_of_host(Bytes aim_bytes, BlockId incoming) {
  if (move_down_lane_.in_flight > 0) {
    return;
  }
  std::vector<BlockId> leaving;
  Bytes leaving_bytes = 0;
  const auto can_leave = [&](BlockId id) {
    if (options_.updates_are_certain && updates_.names(id)) {
      return false;  // it would have to come back
    }
    const bool in_storage = rests_at_host(id) && space_.block(id).copies.has(Tier::kStorage);
    return in_storage ||
           (can_move_down(id) && std::find(leaving.begin(), leaving.end(), id) == leaving.end() &&
            free_bytes(Tier::kStorage) >= leaving_bytes + space_.block(id).bytes);
  };
  while (free_bytes(Tier::kHost) + leaving_bytes < aim_bytes) {
    std::optional<BlockId> victim =
        incoming == kNoBlock ? std::nullopt : policy_->select_host_victim(incoming, *this);
    if (!victim || !can_leave(*victim)) {
      victim = updates_.leaves_first(
          [&](BlockId id) { return can_leave(id) && !updates_ahead_.names(id); });
    }
    if (!victim) {
      victim = updates_.leaves_first(can_leave);
    }
    if (!victim) {
      break;
    }
    if (space_.block(*victim).copies.has(Tier::kStorage)) {
      drop_frame(*victim, Tier::kHost);
      continue;
    }
    leaving.push_back(*victim);
    leaving_bytes += space_.block(*victim).bytes;
    evictions_.wish_down(*victim);
  }
  form_moves_down();
}

void Engine::wake_update(BlockId id) {
  Block& block = space_.block(id);
  waiters_.for_each(block, [&](const Waiters::Waiter& waiter) {
    LaunchTable::Record& record = launches_.at(waiter.launch_slot);
    --record.missing;
    --record.unsubmitted;
    release_if_ready(waiter.launch_slot);
  });
  waiters_.clear(block);
}

// --- Withdrawal --------------------------------------------------------------------------------

// What is on its way to host memory arrives there as any block does.
void Engine::withdraw(LaunchId id) {
  const std::uint32_t slot = LaunchTable::slot_of(id);
  LaunchTable::Record& record = launches_.at(slot);
  assert(record.launch.id == id && record.launch.runs_at == Tier::kHost);
  if (record.stage == LaunchStage::kReleased) {
    return;
  }
  const bool admitted = record.stage == LaunchStage::kAdmitted;
  updates_.gone(slot, record.launch);
  if (!admitted) {
    updates_ahead_.over(record.launch);
  }
  end_keeping_room(record.launch);
  for (const Access& access : record.launch.accesses) {
    for (std::uint32_t i = 0; admitted && i < access.block_count; ++i) {
      leave_update(access.first_block + i, slot);
    }
  }
  end_uses(record);
  record.launch.accesses.clear();
  record.epochs.clear();
  record.missing = record.unsubmitted = 0;
  updates_.issued(slot, record.launch);  // it needs nothing
  if (admitted) {
    updates_.admitted(slot, record.launch);
    release_if_ready(slot);
  }
  for (const AllocationId allocation : due_) {
    carry_out_due(allocation);
  }
  batch_.flush();
  admit_those_that_fit();
  pump();
  settle();
}

// The update waits for the block no more, and does not use it.
void Engine::leave_update(BlockId id, std::uint32_t slot) {
  Block& block = space_.block(id);
  waiters_.remove(block, slot);
  if (!updates_.unpin(id)) {
    return;
  }
  if (updates_.forget(id)) {
    drop_frame(id, Tier::kHost);  // taken for what was to come from storage
  }
  if (block.contents != Contents::kLive && block.copies.has(Tier::kHost)) {
    drop_frame(id, Tier::kHost);
  }
  queues_.update(id);
  if (!block.awaited || block.transfer != kNoIndex) {
    return;  // or its end sees to the thread
  }
  if (block.evicting) {
    cancel_eviction(id);
  } else if (block.copies.has(Tier::kDevice)) {
    make_usable(id);
  } else {
    fetches_.add(id, FetchState::kFault);
  }
}

// --- End ----------------------------------------------------------------------------------------

void Engine::let_go_at_host(std::uint32_t slot) {
  const Launch& launch = launches_.at(slot).launch;
  updates_.gone(slot, launch);
  end_keeping_room(launch);
  for_each_block(launch, [&](BlockId id, const Access& access) {
    Block& block = space_.block(id);
    assert(ready_at_host(block));
    if (writes(access.mode)) {
      block.contents = Contents::kLive;
      if (block.frames.has(Tier::kStorage)) {
        drop_frame(id, Tier::kStorage);
      }
      updates_.updated(id);
    }
    if (!updates_.unpin(id)) {
      return;
    }
    if (block.contents != Contents::kLive) {
      drop_frame(id, Tier::kHost);  // zeros, which are there again when they are wanted
    }
    if (block.awaited) {
      fetches_.add(id, FetchState::kFault);
    }
  });
}

}  // namespace spillway
