// Events of the program: memory comes and goes, dies and is wished for; budgets. See engine.h.
#include "engine/engine.h"

#include <algorithm>
#include <cassert>
#include <unordered_map>

namespace spillway {

Engine::Engine(const EngineOptions& options, Mechanism& mechanism, Policy& policy)
    : options_(options),
      policy_(&policy),
      space_(options.device_frame_bytes),
      pending_uses_(space_, launches_),
      queues_(space_, pending_uses_),
      tiers_(space_, {options.device_capacity_bytes, options.host_capacity_bytes,
                      options.storage_capacity_bytes}),
      pins_(space_),
      updates_(space_),
      fetches_(space_),
      evictions_(space_),
      in_flight_transfers_(space_),
      exposed_(space_),
      batch_(space_, mechanism) {
  assert(!options.release_early || !options.tracks_writes);
  if (options_.tracks_writes) {
    options_.clean_copies = CleanCopies::kAll;
  }
  for (Lane& lane : fetch_lanes_[0]) {
    lane.in_flight_max = options.fault_batches_in_flight;
  }
  for (Lane& lane : fetch_lanes_[1]) {
    lane.in_flight_max = options.batches_in_flight;
  }
  for (auto& lanes : eviction_lanes_) {
    for (Lane& lane : lanes) {
      lane.in_flight_max = options.batches_in_flight;
    }
  }
  move_down_lane_.in_flight_max = update_lane_.in_flight_max = options.batches_in_flight;
  order_.set_window(window().launches_per_stream);
}

LaunchWindow Engine::window() const {
  const LaunchWindow narrowed = policy_->window();
  return {.launches_per_stream =
              std::min(options_.window.launches_per_stream, narrowed.launches_per_stream),
          .bytes = std::min(options_.window.bytes, narrowed.bytes)};
}

// Last of every event, when the state is whole again: what it asks of the world is said, and
// numbers that nobody speaks of any more may be given out again.
void Engine::settle() {
  batch_.flush();
  for (const std::uint64_t launch : served_) {
    batch_.now().faults_served(launch);
  }
  served_.clear();
  for (const std::uint32_t slot : ready_) {
    const LaunchTable::Record& record = launches_.at(slot);
    batch_.now().release_launch(record.launch.tag, record.waits);
  }
  ready_.clear();
  for (const auto& [first, count] : gone_) {
    space_.release(first, count);
  }
  gone_.clear();
}

// --- Memory -------------------------------------------------------------------------------------

Result<AllocationId> Engine::allocate(Bytes bytes, std::uint64_t tag, Bytes block_bytes) {
  Result<AllocationId> id = space_.allocate(bytes, tag, block_bytes);
  if (id) {
    policy_->on_allocate(*id, *this);
    settle();
  }
  return id;
}

// Takes effect now, or after the launches that were issued before.
void Engine::say(const Remark& remark) {
  assert(remark.allocation == kNoAllocation || space_.is_live(remark.allocation));
  const bool dies = remark.kind == Remark::Kind::kFree || remark.kind == Remark::Kind::kDiscard;
  // Where threads write as well, what they write meanwhile would be lost with the rest.
  const bool later = dies ? deferred_.busy(remark.allocation) : deferred_.waits(remark.allocation);
  const Bytes fixed_bytes = pins_.fixed_bytes();
  if (later && (remark.kind != Remark::Kind::kDiscard || !options_.tracks_writes)) {
    deferred_.add(remark);
  } else {
    carry_out({.remark = remark, .epoch = deferred_.epoch(remark.allocation)});
  }
  if (pins_.fixed_bytes() < fixed_bytes) {
    admit_those_that_fit();
  }
  pump();
  settle();
}

void Engine::carry_out_due(AllocationId id) {
  while (true) {
    const std::optional<DeferredFrees::Due> due = deferred_.take(id);
    if (!due) {
      return;
    }
    carry_out(*due);
  }
}

void Engine::carry_out(const DeferredFrees::Due& due) {
  const Remark& remark = due.remark;
  switch (remark.kind) {
    case Remark::Kind::kFree:
      free_now(remark.allocation);
      return;
    case Remark::Kind::kReuse:
      reuse_now(remark.allocation, remark.block_count);
      return;
    case Remark::Kind::kDiscard:
    case Remark::Kind::kPrefetch:
    case Remark::Kind::kPreEvict:
      break;
  }
  for (std::uint32_t i = 0; i < remark.block_count; ++i) {
    const BlockId id = remark.first_block + i;
    const Block& block = space_.block(id);
    if (remark.kind == Remark::Kind::kPrefetch) {
      space_.block(id).retired = false;
      pressed_ = true;  // the program knows what it wants
      prefetch(id);
    } else if (remark.kind == Remark::Kind::kPreEvict) {
      wish_out(id, remark.to, false);
    } else if (block.pins == 0 && block.epoch <= due.epoch &&
               (!options_.tracks_writes ||
                (block.first_claim == kNoIndex && !updates_.names(id)))) {
      discard_block(id, remark.mode);
    }
  }
}

void Engine::expose(AllocationId id) {
  const Allocation& allocation = space_.allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const BlockId block_id = allocation.first_block + i;
    Block& block = space_.block(block_id);
    // What was said before leaves it alone.
    block.epoch = std::max(block.epoch, deferred_.epoch(id));
    expose_block(block_id);
  }
  settle();
}

void Engine::set_recomputable(AllocationId id, bool can) {
  assert(!space_.allocation(id).packed);
  can ? recomputable_.add(id) : recomputable_.remove(id);
}

void Engine::free(AllocationId id) {
  recomputable_.remove(id);
  policy_->on_death_said(id);
  say({.kind = Remark::Kind::kFree, .allocation = id});
}

void Engine::free_now(AllocationId id) {
  const Allocation allocation = space_.allocation(id);
  batch_.now().freed(id);
  deferred_.forget(id);
  end_fix(id);
  space_.end(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    if (space_.block(allocation.first_block + i).tenants == 0) {
      release_if_gone(allocation.first_block + i);
    }
  }
}

// Gives back what a block without tenants holds; its number follows once nothing of it moves.
void Engine::release_if_gone(BlockId id) {
  Block& block = space_.block(id);
  assert(block.tenants == 0 && block.pins == 0 && block.first_claim == kNoIndex);
  if (block.evicting && block.transfer == kNoIndex) {
    cancel_eviction(id);
  }
  block.contents = Contents::kDiscarded;
  fetches_.remove(block);
  evictions_.take_back_wish(block);
  if (block.transfer != kNoIndex) {
    return;  // the end of the transfer comes back here
  }
  asked_.forget(id);
  queues_.remove(id);
  if (block.mapped) {
    unmap(id);
  }
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    if (block.frames.has(tier)) {
      drop_frame(id, tier);
    }
  }
  if (block.host_mapped) {
    tiers_.end_host_mapped(id);
  }
  if (!gone_.empty() && gone_.back().first + gone_.back().second == id) {
    ++gone_.back().second;
  } else {
    gone_.emplace_back(id, 1);
  }
}

void Engine::discard(AllocationId id, DiscardMode mode) {
  recomputable_.remove(id);
  policy_->on_death_said(id);
  const Allocation& allocation = space_.allocation(id);
  if (!allocation.packed) {
    say({.kind = Remark::Kind::kDiscard,
         .allocation = id,
         .first_block = allocation.first_block,
         .block_count = allocation.block_count,
         .mode = mode,
         .whole = true});
  }
}

// Whose blocks these are. Of a frame that several share nothing that is said can wait: discards
// leave it alone.
AllocationId Engine::owner_of(BlockId id) const {
  return space_.is_shared(id) ? kNoAllocation : space_.block(id).allocation;
}

void Engine::discard_blocks(BlockId first_block, std::uint32_t block_count, DiscardMode mode) {
  if (block_count > 0 && !space_.is_shared(first_block)) {
    say({.kind = Remark::Kind::kDiscard,
         .allocation = owner_of(first_block),
         .first_block = first_block,
         .block_count = block_count,
         .mode = mode});
  }
}

void Engine::discard_block(BlockId id, DiscardMode mode) {
  Block& block = space_.block(id);
  assert(block.pins == 0);
  if (block.contents == Contents::kUndefined && block.copies.empty()) {
    return;
  }
  if (block.evicting && block.transfer == kNoIndex) {
    cancel_eviction(id);
  }
  const bool was_below = !block.copies.has(Tier::kDevice);
  asked_.forget(id);
  block.exposed = false;
  block.contents = Contents::kDiscarded;
  block.retired = options_.tracks_writes && mode == DiscardMode::kLazy;
  evictions_.take_back_wish(block);
  fetches_.remove(block);
  if (block.transfer != kNoIndex) {
    return;  // what is under way cannot be called back; its end drops it
  }
  drop_copies_below(id);
  if (end_host_mapped(id) || was_below) {
    return;
  }
  if (!options_.reclaim_discarded_first && block.queue == PageQueue::kUsed && block.mapped) {
    if (block.writable && !block.retired && options_.tracks_writes) {
      block.writable = false;  // its next write makes it live again, and must be seen
      batch_.map(id, false);
    }
    return;
  }
  queues_.push(PageQueue::kDiscarded, id);
  if (mode == DiscardMode::kEager && block.mapped) {
    unmap(id);
  }
}

void Engine::reuse(AllocationId id, std::uint32_t block_count) {
  say({.kind = Remark::Kind::kReuse, .allocation = id, .block_count = block_count});
}

void Engine::reuse_now(AllocationId id, std::uint32_t block_count) {
  policy_->on_allocate(id, *this);
  const Allocation& allocation = space_.allocation(id);
  for (std::uint32_t i = 0; i < std::min(allocation.block_count, block_count); ++i) {
    const BlockId block_id = allocation.first_block + i;
    Block& block = space_.block(block_id);
    block.retired = false;
    if (block.contents == Contents::kDiscarded && block.copies.has(Tier::kDevice) &&
        block.transfer == kNoIndex) {
      block.wants_write = true;
      make_usable(block_id, options_.tracks_writes);  // else it may yet be read as it is
    } else if (block.frames.empty() && block.fetch == FetchState::kNone) {
      miss_frame(block);
    }
  }
}

void Engine::provide(AllocationId id) {
  const Allocation& allocation = space_.allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count && !allocation.packed; ++i) {
    const BlockId block_id = allocation.first_block + i;
    Block& block = space_.block(block_id);
    if (block.contents == Contents::kLive || block.retired || block.at_host ||
        !block.frames.empty() || block.fetch != FetchState::kNone) {
      continue;
    }
    // As for prefetches: the room that faults wait for is theirs.
    if (!reclaim_room(device_bytes(block) + fetches_.fault_bytes(), block_id)) {
      break;
    }
    take_frame(block_id, Tier::kDevice);
    block.prepared = false;
    block.wants_write = true;
    arrive_zeroed(block_id);
  }
  settle();
}

void Engine::prefetch_blocks(BlockId first_block, std::uint32_t block_count) {
  if (block_count > 0) {
    say({.kind = Remark::Kind::kPrefetch,
         .allocation = owner_of(first_block),
         .first_block = first_block,
         .block_count = block_count});
  }
}

void Engine::pre_evict_blocks(BlockId first_block, std::uint32_t block_count, Tier to) {
  if (block_count > 0) {
    say({.kind = Remark::Kind::kPreEvict,
         .allocation = owner_of(first_block),
         .first_block = first_block,
         .block_count = block_count,
         .to = to});
  }
}

void Engine::unmap(BlockId id) {
  Block& block = space_.block(id);
  block.mapped = false;
  block.writable = false;
  batch_.unmap(id);
}

// --- Budget and state ---------------------------------------------------------------------------

// What the largest launch that has not ended needs, or at least some bound that is `enough`.
// --- What stays ---------------------------------------------------------------------------------

Status Engine::fix(AllocationId id) {
  if (fixed_.contains(id)) {
    return {};
  }
  const Allocation& allocation = space_.allocation(id);
  const BlockId end = allocation.first_block + allocation.block_count;
  for (BlockId block = allocation.first_block; block < end; ++block) {
    assert(space_.block(block).pins > 0 && space_.block(block).mapped);
    if (space_.block(block).host_mapped) {
      return make_error(ErrorCode::kInvalidInput, "host-mapped memory cannot stay on the device");
    }
  }
  for (BlockId block = allocation.first_block; block < end; ++block) {
    pins_.fix(block);
  }
  fixed_.insert(id);
  const Bytes left_bytes = room_for_launches();
  if (const Bytes largest_bytes = largest_launch_bytes(left_bytes); largest_bytes > left_bytes) {
    end_fix(id);
    return make_error(ErrorCode::kInvalidInput, "{} would be left for a launch that uses {}",
                      format_bytes(left_bytes), format_bytes(largest_bytes));
  }
  return {};
}

void Engine::end_fix(AllocationId id) {
  if (fixed_.erase(id) == 0) {
    return;
  }
  const Allocation& allocation = space_.allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    if (pins_.end_fix(allocation.first_block + i)) {
      queues_.update(allocation.first_block + i);
      updates_.let_go(allocation.first_block + i);
    }
  }
}

Bytes Engine::room_for_launches() const {
  const Bytes capacity = capacity_bytes(Tier::kDevice);
  return capacity - std::min(capacity, pins_.fixed_bytes());
}

// Of what is not fixed: each block once if that is more than `enough`, else at most that.
Bytes Engine::needed_bytes(const Launch& launch, Bytes enough) const {
  const Bytes bytes = bytes_of(launch, space_, enough);
  return bytes <= enough || pins_.fixed_bytes() == 0 ? bytes : unfixed_bytes_of(launch, space_);
}

// --- Budgets ------------------------------------------------------------------------------------

Bytes Engine::largest_launch_bytes(Bytes enough) {
  if (const Bytes bound_bytes = launches_.largest_bytes(); bound_bytes <= enough) {
    return bound_bytes;
  }
  Bytes largest_bytes = 0;
  for (std::uint32_t slot = 0; slot < launches_.slots(); ++slot) {
    const LaunchTable::Record& record = launches_.at(slot);
    if (record.stage != LaunchStage::kNone && record.bytes > enough) {
      largest_bytes = std::max(largest_bytes, needed_bytes(record.launch, enough));
    }
  }
  return largest_bytes;
}

Status Engine::set_device_capacity(Bytes bytes) {
  const Bytes left_bytes = bytes - std::min(bytes, pins_.fixed_bytes());
  if (const Bytes largest_bytes = largest_launch_bytes(left_bytes); largest_bytes > left_bytes) {
    return make_error(ErrorCode::kInvalidInput,
                      "a device budget of {} is less than the {} that a launch uses",
                      format_bytes(bytes), format_bytes(largest_bytes + pins_.fixed_bytes()));
  }
  if (const Bytes held_bytes = pins_.bytes() + pins_.fixed_bytes(); held_bytes > bytes) {
    return make_error(ErrorCode::kInvalidInput,
                      "a device budget of {} is less than the {} that running launches use",
                      format_bytes(bytes), format_bytes(held_bytes));
  }
  tiers_.set_capacity(Tier::kDevice, bytes);
  forget_free_frames();
  shrink();
  admit_those_that_fit();
  pump();
  settle();
  return {};
}

void Engine::set_capacity_below(Tier tier, Bytes bytes) {
  assert(tier != Tier::kDevice);
  tiers_.set_capacity(tier, bytes);
  admit_those_that_fit();  // updates, which host memory holds
  pump();
  settle();
}

// One that is released and stands behind none on its stream that is not.
bool Engine::some_launch_runs() const {
  std::unordered_map<StreamId, LaunchSeq> first_held;
  for (const LaunchStage stage : {LaunchStage::kAdmitted, LaunchStage::kReleased}) {
    for (std::uint32_t slot = 0; slot < launches_.slots(); ++slot) {
      const LaunchTable::Record& record = launches_.at(slot);
      if (record.stage != stage) {
        continue;
      }
      const Launch& launch = record.launch;
      if (stage == LaunchStage::kAdmitted && launch.stream != kNoStream) {
        const auto [first, added] = first_held.try_emplace(launch.stream, launch.seq);
        first->second = std::min(first->second, launch.seq);
      } else if (stage == LaunchStage::kReleased) {
        const auto first = first_held.find(launch.stream);
        if (launch.stream == kNoStream || first == first_held.end() || launch.seq < first->second) {
          return true;
        }
      }
    }
  }
  return false;
}

std::optional<Error> Engine::stuck() const {
  // Who waits for an update that is not admitted, or as one for a launch, lacks nothing itself.
  const std::uint32_t next = order_.next();
  const bool next_waits = next != LaunchOrder::kNoSlot && !meets_update(launches_.at(next).launch);
  const bool launches_wait =
      admitted_ > launches_.running() || next_waits || updates_.next() != kNoIndex;
  if (in_flight_transfers_.under_way() > 0 || (!launches_wait && fetches_.fault_bytes() == 0)) {
    return std::nullopt;
  }
  // Launches that are too large are refused; a thread has stopped already.
  const Bytes capacity = capacity_bytes(Tier::kDevice);
  if (const Bytes bytes = fetches_.first_fault_bytes(); bytes > capacity) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("a thread waits for a block of {}, and {} of device memory can never "
                             "hold it; give the space more, or smaller blocks",
                             format_bytes(bytes), format_bytes(capacity))};
  }
  // The end of a launch may make room, if that gives back blocks; one that named none may itself
  // be what waits.
  if (some_launch_runs() && (fetches_.fault_bytes() == 0 || pins_.bytes() > 0)) {
    return std::nullopt;
  }
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("out of memory: {} of device memory, {} of host memory and {} of storage "
                  "are full; give the space a larger host tier or storage",
                  format_bytes(capacity_bytes(Tier::kDevice)),
                  format_bytes(capacity_bytes(Tier::kHost)),
                  format_bytes(capacity_bytes(Tier::kStorage)))};
}

}  // namespace spillway
