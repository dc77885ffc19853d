// What leaves the device: reclaiming frames in the driver's order, evictions for room, copies ahead
// of need, moves from host to storage. See engine.h.
#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "engine/engine.h"

namespace spillway {

// --- Making room --------------------------------------------------------------------------------

// Dead memory may keep so much beside what is alive: what comes and goes all the time then finds
// its frames where it left them. That it does is seen when it comes back and has lost them; memory
// that never comes back keeps little.
Bytes Engine::frugal_bytes() const {
  constexpr Bytes kSlackPart = 16;
  const Bytes all_bytes = capacity_bytes(Tier::kDevice);
  return options_.frugal
             ? std::min(all_bytes,
                        most_alive_bytes_ + std::max(most_alive_bytes_ / kSlackPart, slack_bytes_))
             : all_bytes;
}

// A block comes back that has no frame.
void Engine::miss_frame(const Block& block) {
  constexpr Bytes kMostSlackBytes = 16 * kMiB;
  const Bytes missed_bytes = std::min<Bytes>(block.bytes, taken_from_dead_bytes_);
  taken_from_dead_bytes_ -= missed_bytes;
  slack_bytes_ = std::min(slack_bytes_ + missed_bytes, kMostSlackBytes);
}

// True if need_bytes are free now, after frames whose loss costs nothing have been taken (unused,
// then discarded; UVM Discard section 5.5).
bool Engine::reclaim_room(Bytes need_bytes, BlockId incoming) {
  const Bytes dead_bytes = queues_.bytes(PageQueue::kDiscarded);
  most_alive_bytes_ =
      std::max(most_alive_bytes_, used_bytes(Tier::kDevice) - dead_bytes + need_bytes);
  const Bytes enough_bytes = frugal_bytes();
  while (enough_bytes < capacity_bytes(Tier::kDevice) && queues_.size(PageQueue::kDiscarded) > 0 &&
         used_bytes(Tier::kDevice) + need_bytes > enough_bytes) {
    const BlockId dead = queues_.oldest(PageQueue::kDiscarded);
    taken_from_dead_bytes_ += space_.block(dead).bytes;
    reclaim_device_frame(dead);
  }
  if (free_bytes(Tier::kDevice) >= need_bytes) {
    take_dead_of_its_size(incoming);
  }
  while (free_bytes(Tier::kDevice) < need_bytes) {
    BlockId id = queues_.oldest(PageQueue::kUnused);
    if (id == kNoBlock) {
      id = dead_for(incoming);
    }
    if (id == kNoBlock) {
      break;
    }
    reclaim_device_frame(id);
  }
  return free_bytes(Tier::kDevice) >= need_bytes;
}

// There is room, but no free frame of this size, and under pressure what is free is wanted again
// soon as it is. So a dead frame of the size is taken beside, where there is one: as long as no
// more is free than a small part.
void Engine::take_dead_of_its_size(BlockId incoming) {
  constexpr Bytes kFreePart = 16;
  if (!keeps_sizes(incoming) ||
      free_bytes(Tier::kDevice) > capacity_bytes(Tier::kDevice) / kFreePart ||
      free_frames_.has(space_.block(incoming).bytes)) {
    return;
  }
  const BlockId dead = dead_for(incoming);
  if (dead != kNoBlock && space_.block(dead).bytes == space_.block(incoming).bytes) {
    reclaim_device_frame(dead);
  }
}

// A little that is dead and of other sizes stays where the policy has something that leaves without
// a copy: of a program that repeats itself the next launches want it in those sizes.
void Engine::spare_what_is_dead(Bytes need_bytes, Cause cause, BlockId incoming) {
  constexpr Bytes kDeadPart = 32;
  const Bytes dead_bytes = queues_.bytes(PageQueue::kDiscarded);
  const auto room_bytes = [this] {
    return free_bytes(Tier::kDevice) + queues_.bytes(PageQueue::kUnused) +
           evictions_.promised_bytes();
  };
  if (!keeps_sizes(incoming) || dead_bytes == 0 ||
      dead_bytes > capacity_bytes(Tier::kDevice) / kDeadPart || room_bytes() >= need_bytes ||
      space_.block(dead_for(incoming)).bytes == space_.block(incoming).bytes) {
    return;
  }
  while (room_bytes() < need_bytes) {
    const std::optional<BlockId> clean = policy_->select_clean_victim(cause, *this);
    if (!clean || !evictable(*clean) || !leaves_without_a_copy(*clean)) {
      return;
    }
    begin_eviction(*clean);
  }
}

bool Engine::keeps_sizes(BlockId incoming) const {
  return pressed_ && options_.frames_have_sizes && incoming != kNoBlock;
}

// The dead block whose frame is taken for this one: the one that the platform names, or the oldest
// of its size where frames of one size are not good for another. Otherwise the oldest of the size
// of which most is dead: a program that repeats itself needs the oldest of all soonest, and what it
// has most of it can spare. So each size ends with as many frames as were ever alive at once, where
// the device holds that. Where it does not, sizes become others in every step, and rather large
// ones: a large frame goes with one call, and is made again with one. Sizes of which little is dead
// go last, large ones of them first: what is left of them comes and goes.
BlockId Engine::dead_for(BlockId incoming) const {
  const BlockId oldest = queues_.oldest(PageQueue::kDiscarded);
  if (!options_.frames_have_sizes || oldest == kNoBlock || incoming == kNoBlock) {
    return oldest;
  }
  const BlockId holder = batch_.asked().holds_frame_of(incoming);
  if (holder != kNoBlock && space_.block(holder).queue == PageQueue::kDiscarded) {
    return holder;
  }
  struct OfSize {
    Bytes block_bytes = 0;
    Bytes dead_bytes = 0;
    BlockId oldest = kNoBlock;

    [[nodiscard]] std::pair<bool, Bytes> can_be_spared(bool pressed) const {
      constexpr Bytes kLittle = 120 * kMiB;
      return pressed ? std::pair(dead_bytes >= kLittle, dead_bytes / kMiB * block_bytes)
                     : std::pair(true, dead_bytes);
    }
  };
  constexpr std::size_t kSizes = 64;  // of 2 to 128 MiB
  constexpr int kLookedAt = 1024;
  std::array<OfSize, kSizes> sizes{};
  std::size_t count = 0;
  int looked_at = 0;
  for (BlockId id = oldest; id != kNoBlock && looked_at < kLookedAt;
       id = queues_.newer(id), ++looked_at) {
    const Bytes bytes = space_.block(id).bytes;
    if (bytes == space_.block(incoming).bytes) {
      return id;
    }
    auto* const end = sizes.begin() + count;
    auto* const size = std::find_if(sizes.begin(), end,
                                    [bytes](const OfSize& it) { return it.block_bytes == bytes; });
    if (size == end && count < kSizes) {
      sizes[count++] = {.block_bytes = bytes, .dead_bytes = bytes, .oldest = id};
    } else if (size != end) {
      size->dead_bytes += bytes;
    }
  }
  return std::max_element(sizes.begin(), sizes.begin() + count,
                          [this](const OfSize& a, const OfSize& b) {
                            return a.can_be_spared(pressed_) < b.can_be_spared(pressed_);
                          })
      ->oldest;
}

// True if need_bytes are free now. Otherwise starts what will free ahead_bytes: victims that the
// policy chooses.
bool Engine::make_room(Bytes need_bytes, Bytes ahead_bytes, Cause cause, BlockId incoming) {
  spare_what_is_dead(need_bytes, cause, incoming);
  if (reclaim_room(need_bytes, incoming)) {
    return true;
  }
  const Bytes aim_bytes = std::max(need_bytes, ahead_bytes);
  while (free_bytes(Tier::kDevice) + evictions_.promised_bytes() < aim_bytes) {
    const std::optional<BlockId> victim = choose_victim(cause, incoming);
    if (!victim) {
      break;
    }
    begin_eviction(*victim);
  }
  return free_bytes(Tier::kDevice) >= need_bytes;
}

bool Engine::evictable(BlockId id) const {
  if (!alive(id)) {
    return false;
  }
  const Block& block = space_.block(id);
  return leavable(block) && !block.host_mapped;
}

bool Engine::usable(BlockId id) const {
  if (!alive(id)) {
    return false;
  }
  const Block& block = space_.block(id);
  return block.mapped && block.copies.has(Tier::kDevice) && block.contents != Contents::kDiscarded;
}

// What the policy gives. A fault does not wait for ever for a policy that gives nothing, or only
// what cannot go: then it takes the least recently migrated block that can.
std::optional<BlockId> Engine::choose_victim(Cause cause, BlockId incoming) {
  if (cause == Cause::kPrefetch && ignores_wishes()) {
    return std::nullopt;
  }
  const std::optional<BlockId> victim = policy_->select_victim(cause, incoming, *this);
  if (victim && evictable(*victim) && can_leave(*victim)) {
    return victim;
  }
  const bool nothing_leaves = evictions_.promised_bytes() + pre_evicting_bytes(Tier::kHost) +
                                  pre_evicting_bytes(Tier::kStorage) ==
                              0;
  if (cause == Cause::kFault && nothing_leaves) {
    return oldest_that_can_leave();
  }
  return std::nullopt;
}

std::optional<BlockId> Engine::oldest_that_can_leave() const {
  for (BlockId id = queues_.oldest(PageQueue::kUsed); id != kNoBlock; id = queues_.newer(id)) {
    if (evictable(id) && can_leave(id)) {
      return id;
    }
  }
  return std::nullopt;
}

// Dead, or safe below: nothing must be copied.
bool Engine::leaves_at_once(BlockId id) const {
  const Block& block = space_.block(id);
  return block.contents != Contents::kLive || (safe_below(block) && copy_below_can_stay(id));
}

// What is spare counts as free, and may be kept for others by now.
bool Engine::loses_copy_at_host(BlockId id) const {
  const Block& block = space_.block(id);
  return block.spare.has(Tier::kHost) && tiers_.kept_bytes() > 0 &&
         tiers_.room_for(id, Tier::kHost) < block.bytes;
}

bool Engine::copy_below_can_stay(BlockId id) const {
  const Block& block = space_.block(id);
  return !loses_copy_at_host(id) || block.copies.has(Tier::kStorage);
}

// That, or a launch can make it again.
bool Engine::leaves_without_a_copy(BlockId id) const {
  return leaves_at_once(id) || (policy_->recomputes() && can_give_up(owner_of(id)));
}

bool Engine::can_leave(BlockId id) const {
  return leaves_without_a_copy(id) || room_below(id, Tier::kHost).has_value();
}

// Room for the block, but not what an update waits for that is admitted: others would take it as
// fast as it is made. (For updates that are certain it is kept anyway.)
Bytes Engine::free_beside_updates(BlockId id, Tier tier) const {
  const Bytes room_bytes = tiers_.room_for(id, tier);
  const BlockId waits = updates_.first_without_room();
  const bool wanted = tier == Tier::kHost && waits != kNoBlock && !options_.updates_are_certain;
  return room_bytes - (wanted ? std::min<Bytes>(room_bytes, space_.block(waits).bytes) : 0);
}

// Where the block can go: the preferred tier, else the other one below; where there is nothing
// else, to what an update waits for.
std::optional<Tier> Engine::room_below(BlockId id, Tier preferred) const {
  const Block& block = space_.block(id);
  const Tier first = preferred == Tier::kStorage ? Tier::kStorage : Tier::kHost;
  const Tier second = first == Tier::kStorage ? Tier::kHost : Tier::kStorage;
  for (const Tier tier : {first, second}) {
    if (free_beside_updates(id, tier) >= block.bytes && !block.frames.has(tier)) {
      return tier;
    }
  }
  return tiers_.room_for(id, Tier::kHost) >= block.bytes && !block.frames.has(Tier::kHost)
             ? std::optional(Tier::kHost)
             : std::nullopt;
}

// Whether all of the allocation can go now: no launch in flight names it, nothing of it moves.
bool Engine::can_give_up(AllocationId id) const {
  if (!recomputable_.has(id) || deferred_.busy(id)) {
    return false;
  }
  const Allocation& allocation = space_.allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const Block& block = space_.block(allocation.first_block + i);
    if (block.contents != Contents::kLive || block.pins > 0 || block.transfer != kNoIndex ||
        block.fetch != FetchState::kNone) {
      return false;
    }
  }
  return true;
}

BlockId Engine::oldest_recomputable() const {
  const AllocationId oldest = recomputable_.first([&](AllocationId id) {
    return can_give_up(id) && evictable(space_.allocation(id).first_block);
  });
  return oldest == kNoAllocation ? kNoBlock : space_.allocation(oldest).first_block;
}

// Its frames are those of something dead.
void Engine::give_up_in_place(AllocationId id) {
  recomputable_.remove(id);
  batch_.now().gave_up(id);
  const Allocation& allocation = space_.allocation(id);
  stats_.given_up_bytes += allocation.frame_bytes;
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    discard_block(allocation.first_block + i, DiscardMode::kEager);
  }
}

void Engine::give_up_for_room(AllocationId id) {
  give_up_in_place(id);
  const Allocation& allocation = space_.allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const BlockId block = allocation.first_block + i;
    if (space_.block(block).frames.has(Tier::kDevice)) {
      ++stats_.evictions;
      reclaim_device_frame(block);
    }
  }
}

bool Engine::give_up(AllocationId id) {
  if (ignores_wishes() || !policy_->recomputes() || !can_give_up(id)) {
    return false;
  }
  give_up_in_place(id);
  return true;
}

// Starts to empty the victim's frame, at once where nothing must be copied.
void Engine::begin_eviction(BlockId victim) {
  if (const AllocationId owner = owner_of(victim); policy_->recomputes() && can_give_up(owner)) {
    pressed_ = true;
    policy_->on_give_up(owner);
    give_up_for_room(owner);
    return;
  }
  if (leaves_at_once(victim)) {
    ++stats_.evictions;
    reclaim_device_frame(victim);
    return;
  }
  const std::optional<Tier> to = room_below(victim, policy_->eviction_tier(victim, *this));
  if (!to) {
    assert(false && "choose_victim gives only what has somewhere to go");
    return;
  }
  pressed_ = true;
  ++stats_.evictions;
  take_frame(victim, *to);
  queues_.remove(victim);
  unmap(victim);
  evictions_.promise(victim, *to);
}

// An eviction that no transfer has taken up yet: the block is as if it had never been chosen.
void Engine::cancel_eviction(BlockId id) {
  Block& block = space_.block(id);
  assert(block.evicting && block.transfer == kNoIndex);
  ++stats_.cancelled_evictions;
  evictions_.take_back_promise(block);
  for (const Tier tier : {Tier::kHost, Tier::kStorage}) {
    if (block.frames.has(tier) && !block.copies.has(tier)) {
      tiers_.give_back(id, tier);  // nothing was ever put there
    }
  }
  make_usable(id);
}

// The frame's bytes are dead, or safe below.
void Engine::reclaim_device_frame(BlockId id) {
  Block& block = space_.block(id);
  assert(!pinned_on_device(block) && block.transfer == kNoIndex);
  if (block.contents == Contents::kDiscarded) {
    ++stats_.reclaimed_discarded;
    stats_.saved_by_discard_bytes += block.bytes;
  } else if (block.queue == PageQueue::kUnused) {
    ++stats_.reclaimed_unused;
  }
  if (block.prefetched) {
    block.prefetched = false;
    ++stats_.prefetches_wasted;
  }
  lose_device_frame(id);
}

// What lies below of the block, if anything, is the only copy from here on.
void Engine::lose_device_frame(BlockId id) {
  queues_.remove(id);
  if (space_.block(id).mapped) {
    unmap(id);
  }
  if (space_.block(id).frames.has(Tier::kDevice)) {
    drop_frame(id, Tier::kDevice);
  }
  keep_copies_below(id);
}

// They are spare no more. One that is spare in host memory, where room is kept for others, goes if
// storage has another.
void Engine::keep_copies_below(BlockId id) {
  if (loses_copy_at_host(id)) {
    assert(space_.block(id).contents != Contents::kLive ||
           space_.block(id).copies.has(Tier::kStorage));
    drop_frame(id, Tier::kHost);
  }
  for (const Tier tier : {Tier::kHost, Tier::kStorage}) {
    tiers_.remove_spare(id, tier);
  }
}

// The budget shrank: give frames back until it holds.
void Engine::shrink() {
  while (used_bytes(Tier::kDevice) > capacity_bytes(Tier::kDevice)) {
    BlockId id = queues_.oldest(PageQueue::kUnused);
    if (id == kNoBlock) {
      id = queues_.oldest(PageQueue::kDiscarded);
    }
    if (id != kNoBlock) {
      reclaim_device_frame(id);
      continue;
    }
    if (used_bytes(Tier::kDevice) - evictions_.promised_bytes() <= capacity_bytes(Tier::kDevice)) {
      return;
    }
    const std::optional<BlockId> victim = oldest_that_can_leave();
    if (!victim) {
      return;
    }
    begin_eviction(*victim);
  }
}

bool Engine::on_its_way(BlockId id) const {
  return alive(id) && (space_.block(id).fetch != FetchState::kNone ||
                       (space_.block(id).transfer != kNoIndex &&
                        in_flight_transfers_.of(space_.block(id)).to == Tier::kDevice));
}

// --- Ahead of need ------------------------------------------------------------------------------

void Engine::pre_evict(BlockId id, Tier to) {
  if (!ignores_wishes()) {
    wish_out(id, to, false);
  }
}

void Engine::copy_down(BlockId id, Tier to) {
  if (!ignores_wishes()) {
    wish_out(id, to, keeps_clean_copies(to));
  }
}

void Engine::wish_out(BlockId id, Tier to, bool stays) {
  if (!alive(id) || to == Tier::kDevice ||
      (policy_->recomputes() && recomputable_.has(owner_of(id)))) {
    return;
  }
  Block& block = space_.block(id);
  if (block.contents != Contents::kLive || block.pins > 0 || block.transfer != kNoIndex) {
    return;
  }
  if (evictable(id)) {
    evictions_.wish(id, to, stays);
  } else if (to == Tier::kStorage && !block.frames.has(Tier::kDevice) &&
             block.copies.has(Tier::kHost)) {
    evictions_.wish_down(id);
  }
}

void Engine::form_evictions(Cause cause, Tier to) {
  Lane& lane = eviction_lanes_[cause == Cause::kEvict ? 0 : 1][index_of(to)];
  while (!lane.full()) {
    Transfer transfer{.from = Tier::kDevice, .to = to, .cause = cause};
    while (transfer.bytes < options_.eviction_batch_bytes) {
      const std::optional<BlockId> id = evictions_.take(cause, to);
      if (!id) {
        break;
      }
      if (cause == Cause::kEvict || prepare_pre_eviction(*id, to)) {
        in_flight_transfers_.add(transfer, *id);
        queues_.update(*id);
      }
    }
    if (transfer.blocks.empty()) {
      return;
    }
    start(std::move(transfer), lane);
  }
}

// A wish may have been overtaken by events; true if the block must be copied to `to`.
bool Engine::prepare_pre_eviction(BlockId id, Tier to) {
  Block& block = space_.block(id);
  evictions_.take_back_wish(block);
  if (!alive(id) || !leavable(block) || block.contents != Contents::kLive) {
    return false;
  }
  const bool clean_below = safe_below(block);
  if (clean_below ? !copy_below_can_stay(id) : free_beside_updates(id, to) < block.bytes) {
    return false;
  }
  if (block.stays && clean_below) {
    return false;
  }
  if (block.exposed && exposed_.is_reached()) {
    return false;  // it may be written while it is copied
  }
  ++stats_.pre_evictions;
  unmap(id);
  if (!block.stays) {
    queues_.remove(id);
  }
  if (clean_below) {
    if (end_host_mapped(id)) {
      return false;
    }
    keep_copies_below(id);  // its device frame may go at any time
    push_unused(id);
    return false;
  }
  take_frame(id, to);
  evictions_.copy_begins(block, to);  // until it has ended
  return true;
}

// Its frame may go at any time.
void Engine::push_unused(BlockId id) {
  queues_.push(PageQueue::kUnused, id);
  exposed_.add_if_clean(id);
}

void Engine::eviction_ended(Block& block, Tier to, Cause cause) {
  if (cause == Cause::kPreEvict) {
    evictions_.copy_ended(block, to);
  } else {
    evictions_.take_back_promise(block);
  }
}

// `reached`: launches ran while it was copied that may write what is exposed.
void Engine::eviction_finished(BlockId id, Tier to, Cause cause, bool reached) {
  Block& block = space_.block(id);
  eviction_ended(block, to, cause);
  if (block.at_host && block.wants_write) {
    // It was written, or held, while it was copied: the copy is none, and there will be another.
    drop_frame(id, to);
    queues_.update(id);
    make_usable(id);
    return;
  }
  block.copies.add(to);
  if (block.tenants == 0) {
    release_if_gone(id);
    return;
  }
  if (block.contents == Contents::kDiscarded) {
    drop_copies_below(id);
    if (end_host_mapped(id)) {
      return;
    }
    queues_.push(PageQueue::kDiscarded, id);
    if (needed(block)) {
      make_usable(id);
      wake(id, false);
    }
    return;
  }
  if (reached && block.exposed && (cause == Cause::kPreEvict || needed(block))) {
    drop_copies_below(id);
    stats_.cancelled_evictions += cause == Cause::kEvict ? 1 : 0;
    queues_.update(id);
    make_usable(id);
    wake(id, false);
    return;
  }
  if (cause == Cause::kPreEvict && block.stays && !block.at_host) {
    queues_.update(id);
    keep_or_drop_copies_below(id);
    make_usable(id);
    wake(id, false);
    return;
  }
  if (end_host_mapped(id)) {
    return;
  }
  push_unused(id);
  if (needed(block)) {  // wanted again while it was leaving: it stays
    ++stats_.cancelled_evictions;
    make_usable(id);
    wake(id, false);
  } else if (cause == Cause::kEvict) {
    queues_.remove(id);
    reclaim_device_frame(id);
  }
}

void Engine::eviction_failed(BlockId id, Tier to, Cause cause) {
  Block& block = space_.block(id);
  eviction_ended(block, to, cause);
  drop_frame(id, to);
  if (block.tenants == 0) {
    release_if_gone(id);
    return;
  }
  if (block.contents == Contents::kDiscarded) {
    if (end_host_mapped(id)) {
      return;
    }
    queues_.push(PageQueue::kDiscarded, id);
    if (!needed(block)) {
      return;
    }
  }
  queues_.update(id);
  make_usable(id);  // most recently used, so that another victim is tried first
  wake(id, false);
}

// --- Between host memory and storage ------------------------------------------------------------

// Alive in host memory, not on the device, and nobody wants it.
bool Engine::rests_at_host(BlockId id) const {
  if (!alive(id)) {
    return false;
  }
  const Block& block = space_.block(id);
  return block.contents == Contents::kLive && block.copies.has(Tier::kHost) &&
         !block.frames.has(Tier::kDevice) && block.transfer == kNoIndex &&
         block.fetch == FetchState::kNone && block.pins == 0;
}

bool Engine::can_move_down(BlockId id) const {
  return rests_at_host(id) && !space_.block(id).frames.has(Tier::kStorage) &&
         free_bytes(Tier::kStorage) >= space_.block(id).bytes;
}

void Engine::form_moves_down() {
  while (!move_down_lane_.full()) {
    Transfer transfer{.from = Tier::kHost, .to = Tier::kStorage, .cause = Cause::kPreEvict};
    while (transfer.bytes < options_.storage_batch_bytes) {
      const std::optional<BlockId> id = evictions_.take_down();
      if (!id) {
        break;
      }
      if (!can_move_down(*id)) {
        continue;
      }
      take_frame(*id, Tier::kStorage);
      in_flight_transfers_.add(transfer, *id);
    }
    if (transfer.blocks.empty()) {
      return;
    }
    start(std::move(transfer), move_down_lane_);
  }
}

// Down to make room, or up for an update, which may have been withdrawn meanwhile. What an update
// uses stays in host memory, whichever way it was moved.
void Engine::move_below_ended(BlockId id, Tier from, Tier to, bool finished) {
  Block& block = space_.block(id);
  if (finished) {
    block.copies.add(to);
  } else {
    drop_frame(id, to);
  }
  if (block.tenants == 0) {
    release_if_gone(id);
    return;
  }
  if (block.contents == Contents::kDiscarded) {
    drop_copies_below(id);
  } else if (finished) {
    drop_frame(id, block.at_host ? Tier::kStorage : from);
  }
  if (needed(block)) {
    fetches_.add(id, FetchState::kFault);
  }
}

}  // namespace spillway
