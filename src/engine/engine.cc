// Events of the program: memory comes and goes, launches begin and end. See engine.h.
#include "engine/engine.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace spillway {

Engine::Engine(const EngineOptions& options, Mechanism& mechanism, Policy& policy)
    : options_(options),
      mechanism_(&mechanism),
      policy_(&policy),
      space_(options.device_frame_bytes),
      queues_(space_) {
  const std::array capacities{options.device_capacity_bytes, options.host_capacity_bytes,
                              options.storage_capacity_bytes};
  for (std::size_t tier = 0; tier < kTierCount; ++tier) {
    tiers_[tier].capacity_bytes = tiers_[tier].limit_bytes = capacities[tier];
  }
  for (Lane& lane : fetch_lanes_[0]) {
    lane.in_flight_max = 1;
  }
  for (Lane& lane : fetch_lanes_[1]) {
    lane.in_flight_max = options.batches_in_flight;
  }
  for (auto& lanes : eviction_lanes_) {
    for (Lane& lane : lanes) {
      lane.in_flight_max = options.batches_in_flight;
    }
  }
  move_down_lane_.in_flight_max = options.batches_in_flight;
}

template <typename Visit>
void Engine::for_each_block(const Launch& launch, Visit visit) {
  for (const Access& access : launch.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      visit(access.first_block + i, access);
    }
  }
}

// Policies may name any number.
bool Engine::alive(BlockId id) const {
  return id < space_.block_slots() && space_.block(id).tenants > 0;
}

Bytes Engine::capacity_bytes(Tier tier) const { return tiers_[index_of(tier)].capacity_bytes; }

Bytes Engine::free_bytes(Tier tier) const {
  const TierAccount& account = tiers_[index_of(tier)];
  const Bytes needed_bytes = account.used_bytes - account.spare_bytes;
  return account.capacity_bytes > needed_bytes ? account.capacity_bytes - needed_bytes : 0;
}

// --- Memory
// ----------------------------------------------------------------------------------------

Result<AllocationId> Engine::allocate(Bytes bytes, std::uint64_t tag) {
  Result<AllocationId> id = space_.allocate(bytes, tag);
  if (id) {
    policy_->on_allocate(*id, *this);
  }
  return id;
}

void Engine::free(AllocationId id) {
  assert(space_.is_live(id));
  const Allocation allocation = space_.allocation(id);
  policy_->on_dead(id, *this);
  space_.end(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    if (space_.block(allocation.first_block + i).tenants == 0) {
      release_if_gone(allocation.first_block + i);
    }
  }
  pump();
  report_ready();
}

// Gives back what a block without tenants holds; its number follows once nothing of it moves.
void Engine::release_if_gone(BlockId id) {
  Block& block = space_.block(id);
  assert(block.tenants == 0 && block.pins == 0);
  if (block.evicting && block.transfer == kNoIndex) {
    cancel_eviction(id);
  }
  block.contents = Contents::kDiscarded;
  leave_fetch_queue(block);
  take_back_wish(block);
  if (block.transfer != kNoIndex) {
    return;  // the end of the transfer comes back here
  }
  queues_.remove(id);
  if (block.mapped) {
    unmap(id);
  }
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    if (block.frames.has(tier)) {
      drop_frame(id, tier);
    }
  }
  space_.release(id, 1);
}

void Engine::discard(AllocationId id, DiscardMode mode) {
  assert(space_.is_live(id));
  const Allocation& allocation = space_.allocation(id);
  if (allocation.packed) {
    return;
  }
  policy_->on_dead(id, *this);
  discard_blocks(allocation.first_block, allocation.block_count, mode);
}

void Engine::discard_blocks(BlockId first_block, std::uint32_t block_count, DiscardMode mode) {
  for (std::uint32_t i = 0; i < block_count; ++i) {
    discard_block(first_block + i, mode);
  }
  pump();
  report_ready();
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
  block.contents = Contents::kDiscarded;
  block.retired = options_.tracks_writes && mode == DiscardMode::kLazy;
  take_back_wish(block);
  leave_fetch_queue(block);
  if (block.transfer != kNoIndex) {
    return;  // what is under way cannot be called back; its end drops it
  }
  drop_copies_below(id);
  if (was_below) {
    return;
  }
  if (!options_.reclaim_discarded_first && block.queue == PageQueue::kUsed && block.mapped) {
    if (block.writable && !block.retired && options_.tracks_writes) {
      block.writable = false;  // its next write makes it live again, and must be seen
      mechanism_->map(id, false);
    }
    return;
  }
  queues_.push(PageQueue::kDiscarded, id);
  if (mode == DiscardMode::kEager && block.mapped) {
    unmap(id);
  }
}

void Engine::reuse(AllocationId id) {
  assert(space_.is_live(id));
  policy_->on_allocate(id, *this);
  const Allocation& allocation = space_.allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const BlockId block_id = allocation.first_block + i;
    Block& block = space_.block(block_id);
    block.retired = false;
    if (block.contents == Contents::kDiscarded && block.copies.has(Tier::kDevice) &&
        block.transfer == kNoIndex) {
      block.wants_write = true;
      make_usable(block_id, true);
    }
  }
  report_ready();
}

void Engine::prefetch_blocks(BlockId first_block, std::uint32_t block_count) {
  for (std::uint32_t i = 0; i < block_count; ++i) {
    space_.block(first_block + i).retired = false;
    prefetch(first_block + i);
  }
  pump();
  report_ready();
}

void Engine::pre_evict_blocks(BlockId first_block, std::uint32_t block_count, Tier to) {
  for (std::uint32_t i = 0; i < block_count; ++i) {
    pre_evict(first_block + i, to);
  }
  pump();
  report_ready();
}

// --- Launches
// --------------------------------------------------------------------------------------

// Each block once, however often the launch names it.
Engine::LaunchBytes Engine::bytes_of(const Launch& launch) {
  LaunchBytes bytes;
  ++counts_;
  for_each_block(launch, [&](BlockId id, const Access&) {
    Block& block = space_.block(id);
    if (block.counted == counts_) {
      return;
    }
    block.counted = counts_;
    bytes.all += block.bytes;
    bytes.unpinned += block.pins == 0 ? block.bytes : 0;
  });
  return bytes;
}

LaunchAdmission Engine::begin_launch(const Launch& launch) {
  assert(launch.seq > last_seq_ || last_seq_ == 0);
  LaunchAdmission admission;
  const LaunchBytes bytes = bytes_of(launch);
  if (bytes.all > capacity_bytes(Tier::kDevice)) {
    admission.state = LaunchState::kTooLarge;
    return admission;
  }
  last_seq_ = launch.seq;
  latest_.seq = launch.seq;
  latest_.execution = launch.execution;
  latest_.position = launch.position;
  latest_.tells_all = launch.tells_all;
  ++stats_.launches;
  const auto unused = std::find_if(launches_.begin(), launches_.end(),
                                   [](const ActiveLaunch& active) { return !active.live; });
  const auto slot = static_cast<std::uint32_t>(unused - launches_.begin());
  if (unused == launches_.end()) {
    launches_.emplace_back();
  }
  launches_[slot] = ActiveLaunch{.launch = launch, .live = true};
  ++active_launches_;
  // Launches are admitted in order: one that does not fit holds back those behind it.
  if (!waiting_for_admission_.empty() ||
      pinned_bytes_ + bytes.unpinned > capacity_bytes(Tier::kDevice)) {
    waiting_for_admission_.push_back(slot);
    admission.state = LaunchState::kWaiting;
    return admission;
  }
  admit(slot, admission);
  pump();
  admission.state = LaunchState::kWaiting;
  if (launches_[slot].missing == 0) {
    admission.state = LaunchState::kReady;
  }
  report_ready();
  return admission;
}

void Engine::admit(std::uint32_t slot, LaunchAdmission& admission) {
  launches_[slot].admitted = true;
  // First every block is pinned, so that making room for one cannot take another.
  for_each_block(launches_[slot].launch, [&](BlockId id, const Access& access) {
    Block& block = space_.block(id);
    if (block.pins++ == 0) {
      pinned_bytes_ += block.bytes;
    }
    block.wants_write |= writes(access.mode);
    block.retired = false;  // who names it uses it
    take_back_wish(block);
  });
  // Then what is there already is taken back from whoever would have reclaimed it.
  for_each_block(launches_[slot].launch, [&](BlockId id, const Access& access) {
    Block& block = space_.block(id);
    if (block.evicting && block.transfer == kNoIndex) {
      cancel_eviction(id);
    }
    if (block.copies.has(Tier::kDevice) && block.transfer == kNoIndex) {
      make_usable(id, overwrites_alone(block, access));
    }
  });
  policy_->on_launch(launches_[slot].launch, *this);
  pump();
  for_each_block(launches_[slot].launch,
                 [&](BlockId id, const Access& access) { touch(slot, id, access, admission); });
  if (admission.faulted_blocks > 0) {
    policy_->on_faults(launches_[slot].launch, *this);
  }
  if (launches_[slot].missing == 0) {
    ready_slots_.push_back(slot);
  }
}

// Whether nobody but this access will see the block's bytes before it has overwritten all of them.
// A page that small allocations share has neighbours that it does not write.
bool Engine::overwrites_alone(const Block& block, const Access& access) const {
  return access.mode == AccessMode::kOverwrite && block.pins == 1 &&
         !space_.allocation(access.allocation).packed;
}

void Engine::touch(std::uint32_t slot, BlockId id, const Access& access,
                   LaunchAdmission& admission) {
  Block& block = space_.block(id);
  if (block.copies.has(Tier::kDevice) && block.transfer == kNoIndex) {
    count_if_prefetched(block);
    return;
  }
  ++admission.missing_blocks;
  if (!overwrites_alone(block, access)) {
    block.overwritten = false;
  }
  const bool on_its_way = block.transfer != kNoIndex || block.fetch != FetchState::kNone;
  wait_for(slot, block, !on_its_way);
  if (on_its_way) {
    ++stats_.late_prefetches;
    block.prefetched = false;
    if (block.fetch == FetchState::kPrefetch) {
      enqueue_fetch(id, FetchState::kFault);
    }
    return;
  }
  ++stats_.faults;
  ++admission.faulted_blocks;
  if (overwrites_alone(block, access)) {
    // It needs a frame only; its old contents are dead from here on.
    if (block.contents == Contents::kLive) {
      block.contents = Contents::kDiscarded;
      drop_copies_below(id);
    }
    block.overwritten = true;
  }
  enqueue_fetch(id, FetchState::kFault);
  policy_->on_fault(launches_[slot].launch, id, *this);
}

void Engine::thread_faults(std::span<const ThreadFault> faults) {
  bool missing = false;
  for (const ThreadFault& fault : faults) {
    missing |= alive(fault.block) && thread_fault(fault);
  }
  if (missing) {
    policy_->on_faults(latest_, *this);
  }
  pump();
  report_ready();
}

// A block that is there is used: if a prefetch has brought it, that was not in vain.
void Engine::count_if_prefetched(Block& block) {
  if (block.prefetched) {
    block.prefetched = false;
    ++stats_.prefetches_used;
  }
}

void Engine::written_on_arrival(BlockId id) {
  Block& block = space_.block(id);
  assert(block.transfer != kNoIndex && flights_[block.transfer].transfer.to == Tier::kDevice);
  block.wants_write = true;
}

void Engine::note_accesses(BlockId first_block, std::uint32_t block_count) {
  note_uses(first_block, block_count);
  for (std::uint32_t i = 0; i < block_count; ++i) {
    if (alive(first_block + i)) {
      policy_->on_access(latest_, first_block + i, *this);
    }
  }
}

void Engine::note_uses(BlockId first_block, std::uint32_t block_count) {
  for (std::uint32_t i = 0; i < block_count; ++i) {
    if (!alive(first_block + i)) {
      continue;
    }
    Block& block = space_.block(first_block + i);
    if (block.copies.has(Tier::kDevice) && block.transfer == kNoIndex) {
      count_if_prefetched(block);
    }
  }
}

// True if the block was neither there nor on its way.
bool Engine::thread_fault(const ThreadFault& fault) {
  Block& block = space_.block(fault.block);
  take_back_wish(block);
  block.wants_write |= fault.write;
  block.retired = false;  // whatever was promised
  if (block.evicting && block.transfer == kNoIndex) {
    cancel_eviction(fault.block);
  }
  if (block.copies.has(Tier::kDevice) && block.transfer == kNoIndex) {
    count_if_prefetched(block);
    const bool served_before = block.mapped && (block.writable || !block.wants_write);
    make_usable(fault.block);
    if (served_before) {
      mechanism_->map(fault.block, block.writable);  // the thread's fault crossed what served it
    }
    return false;
  }
  if (block.awaited) {
    return false;
  }
  block.awaited = true;
  if (block.transfer != kNoIndex || block.fetch != FetchState::kNone) {
    // Of a block that is leaving only a write is stopped, and that is no late prefetch.
    if (!block.copies.has(Tier::kDevice)) {
      ++stats_.late_prefetches;
    }
    block.prefetched = false;
    if (block.fetch == FetchState::kPrefetch) {
      enqueue_fetch(fault.block, FetchState::kFault);
    }
    return false;
  }
  ++stats_.faults;
  enqueue_fetch(fault.block, FetchState::kFault);
  policy_->on_fault(latest_, fault.block, *this);
  return true;
}

void Engine::unmap(BlockId id) {
  Block& block = space_.block(id);
  block.mapped = false;
  block.writable = false;
  mechanism_->unmap(id);
}

void Engine::wait_for(std::uint32_t slot, Block& block, bool faulted) {
  std::uint32_t node = free_waiter_;
  if (node == kNoIndex) {
    node = static_cast<std::uint32_t>(waiters_.size());
    waiters_.emplace_back();
  } else {
    free_waiter_ = waiters_[node].next;
  }
  waiters_[node] = {slot, block.waiter, faulted};
  block.waiter = node;
  ++launches_[slot].missing;
  launches_[slot].faults_open += faulted ? 1 : 0;
}

void Engine::end_launch(LaunchSeq seq) {
  const auto found =
      std::find_if(launches_.begin(), launches_.end(), [&](const ActiveLaunch& active) {
        return active.live && active.admitted && active.launch.seq == seq;
      });
  assert(found != launches_.end() && found->missing == 0);
  found->live = false;
  --active_launches_;
  const Launch launch = std::move(found->launch);
  for_each_block(launch, [&](BlockId id, const Access& access) {
    Block& block = space_.block(id);
    assert(block.pins > 0 && block.copies.has(Tier::kDevice));
    if (--block.pins == 0) {
      pinned_bytes_ -= block.bytes;
    }
    if (writes(access.mode)) {
      block.contents = Contents::kLive;
      drop_copies_below(id);
    }
  });
  policy_->on_launch_end(launch, *this);
  admit_waiting();
  shrink();
  pump();
  report_ready();
}

void Engine::admit_waiting() {
  while (!waiting_for_admission_.empty()) {
    const std::uint32_t slot = waiting_for_admission_.front();
    if (pinned_bytes_ + bytes_of(launches_[slot].launch).unpinned > capacity_bytes(Tier::kDevice)) {
      return;
    }
    waiting_for_admission_.pop_front();
    LaunchAdmission admission;
    admit(slot, admission);
  }
}

// The block is usable: launches that waited for it are one block nearer.
void Engine::wake(BlockId id) {
  Block& block = space_.block(id);
  while (block.waiter != kNoIndex) {
    const std::uint32_t node = block.waiter;
    const Waiter waiter = waiters_[node];
    block.waiter = waiter.next;
    waiters_[node].next = free_waiter_;
    free_waiter_ = node;
    if (waiter.faulted && --launches_[waiter.launch_slot].faults_open == 0) {
      mechanism_->faults_served(launches_[waiter.launch_slot].launch.seq);
    }
    if (--launches_[waiter.launch_slot].missing == 0) {
      ready_slots_.push_back(waiter.launch_slot);
    }
  }
}

// Last of every event, when the state is whole again.
void Engine::report_ready() {
  while (!ready_slots_.empty()) {
    const std::uint32_t slot = ready_slots_.back();
    ready_slots_.pop_back();
    mechanism_->launch_ready(launches_[slot].launch.seq);
  }
}

// --- Budget and state
// ------------------------------------------------------------------------------

Status Engine::set_device_capacity(Bytes bytes) {
  for (const ActiveLaunch& active : launches_) {
    if (active.live && bytes_of(active.launch).all > bytes) {
      return make_error(ErrorCode::kInvalidInput,
                        "a device budget of {} is less than the {} that a running launch uses",
                        format_bytes(bytes), format_bytes(bytes_of(active.launch).all));
    }
  }
  if (pinned_bytes_ > bytes) {
    return make_error(ErrorCode::kInvalidInput,
                      "a device budget of {} is less than the {} that running launches use",
                      format_bytes(bytes), format_bytes(pinned_bytes_));
  }
  TierAccount& device = tiers_[index_of(Tier::kDevice)];
  device.capacity_bytes = bytes;
  device.limit_bytes = std::max(bytes, device.used_bytes);
  shrink();
  admit_waiting();
  pump();
  report_ready();
  return {};
}

void Engine::set_capacity_below(Tier tier, Bytes bytes) {
  assert(tier != Tier::kDevice);
  TierAccount& account = tiers_[index_of(tier)];
  account.capacity_bytes = bytes;
  account.limit_bytes = std::max(bytes, account.used_bytes);
  pump();
  report_ready();
}

std::optional<Error> Engine::stuck() const {
  if (in_flight_ > 0 || (active_launches_ == 0 && fault_bytes_ == 0)) {
    return std::nullopt;
  }
  const bool runs = std::any_of(launches_.begin(), launches_.end(), [](const auto& active) {
    return active.live && active.admitted && active.missing == 0;
  });
  // The end of a launch may make room, if that gives back blocks; one that named none may itself
  // be what waits.
  if (runs && (fault_bytes_ == 0 || pinned_bytes_ > 0)) {
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
