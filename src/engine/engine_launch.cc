// Launches from their issue to their end, and threads that stop. See engine.h; docs/engine.md.
#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/engine.h"
#include "engine/memory/for_each_block.h"

namespace spillway {

// --- Issue --------------------------------------------------------------------------------------

LaunchAdmission Engine::issue_launch(const Launch& launch) {
  LaunchAdmission admission{.state = LaunchState::kWaiting};
  const bool update = launch.runs_at == Tier::kHost;
  const Bytes most_bytes = update ? capacity_bytes(Tier::kHost) : room_for_launches();
  const Bytes bytes =
      update ? bytes_of(launch, space_, most_bytes) : needed_bytes(launch, most_bytes);
  const bool no_room =
      update && options_.updates_are_certain && more_kept_bytes(launch) > free_bytes(Tier::kHost);
  if (bytes > most_bytes || no_room || launches_.full()) {
    admission.state = LaunchState::kTooLarge;
    return admission;
  }
  const std::uint32_t slot = launches_.take(launch, update ? 0 : bytes);  // of the device
  LaunchTable::Record& record = launches_.at(slot);
  admission.id = record.launch.id;
  last_issued_ = record.launch.seq;
  for (const Access& access : record.launch.accesses) {
    record.epochs.push_back(deferred_.begin_use(access.allocation));
  }
  ++(update ? stats_.updates : stats_.launches);
  // One that needs nothing and comes behind nobody waits for nobody. Updates stand on no stream.
  const bool free_to_go = launch.stream == kNoStream && launch.accesses.empty();
  if (!update && !free_to_go) {
    order_.issue(slot, record.launch);
    // One that is admitted at once has no time to be the future.
    if (order_.next() != slot || !fits(slot)) {
      claim(slot);
    }
  }
  if (update) {
    updates_.issued(slot, launches_.at(slot).launch);
    updates_ahead_.issued(launches_.at(slot).launch);
    keep_room(launch);
    policy_->on_update(UpdateStage::kIssued, launches_.at(slot).launch, *this);
  } else {
    policy_->on_issue(launches_.at(slot).launch, *this);
  }
  admission_ = &admission;
  if (!update && free_to_go) {
    admit(slot);
  }
  admit_those_that_fit();
  admission_ = nullptr;
  if (!update && launches_.at(slot).stage == LaunchStage::kIssued && !launches_.at(slot).claims) {
    claim(slot);  // the policy has narrowed its window meanwhile
  }
  pump();
  if (launches_.at(slot).stage == LaunchStage::kReleased) {
    admission.state = LaunchState::kReady;
  }
  settle();
  return admission;
}

// It waits for its admission, and is part of the future.
void Engine::claim(std::uint32_t slot) {
  LaunchTable::Record& record = launches_.at(slot);
  record.claims = true;
  pending_uses_.issued(slot);
  for_each_block(record.launch, [&](BlockId id, const Access& /*access*/) {
    if (pending_uses_.add(id, slot)) {
      queues_.update(id);
    }
  });
}

bool Engine::dies_after(BlockId id, LaunchId launch) const {
  if (!alive(id) || space_.is_shared(id) || pending_uses_.last_launch(id) != launch) {
    return false;
  }
  const LaunchTable::Record& record = launches_.at(LaunchTable::slot_of(launch));
  const AllocationId allocation = space_.block(id).allocation;
  for (std::size_t i = 0; i < record.launch.accesses.size(); ++i) {
    if (record.launch.accesses[i].allocation == allocation) {
      return deferred_.dies_after(allocation, record.epochs[i]);
    }
  }
  return false;
}

void Engine::record_signal(SignalId signal, StreamId stream) {
  order_.record(signal, stream);
  admit_those_that_fit();
  pump();
  settle();
}

void Engine::wait_for_signal(SignalId signal, StreamId stream) { order_.wait(signal, stream); }

// --- Admission ----------------------------------------------------------------------------------

// Whether the launch that is next in line finds room beside those that are admitted. If not, what
// it lacks is counted from here on as others end.
bool Engine::fits(std::uint32_t slot) {
  if (meets_update(launches_.at(slot).launch)) {
    if (pins_.held_for() != slot) {
      pins_.hold_for(slot, launches_);
    }
    return false;
  }
  const Bytes held_bytes = pins_.bytes();
  const Bytes limit_bytes = std::min(room_for_launches(), window().bytes);
  if (held_bytes == 0 || held_bytes + launches_.at(slot).bytes <= limit_bytes) {
    return true;
  }
  if (pins_.held_for() != slot) {
    pins_.hold_for(slot, launches_);
  }
  return held_bytes + pins_.more_bytes() <= limit_bytes;
}

LaunchFit Engine::fit(const Launch& launch) const {
  LaunchFit fit{.held_bytes = pins_.bytes() + pins_.fixed_bytes()};
  const Bytes held_bytes = pins_.bytes();
  const Bytes most_bytes = room_for_launches();
  const Bytes limit = std::min(most_bytes, window().bytes);
  const Bytes bytes = needed_bytes(launch, most_bytes);
  fit.more_bytes = bytes;
  if (bytes > most_bytes) {
    fit.state = LaunchState::kTooLarge;
    return fit;
  }
  if (held_bytes + bytes > limit) {
    fit.more_bytes = unpinned_bytes_of(launch, space_);
  }
  const bool room = held_bytes == 0 || held_bytes + fit.more_bytes <= limit;
  Launch last = launch;
  last.seq = kNever;
  if (!room || order_.next() != LaunchOrder::kNoSlot || meets_update(last)) {
    fit.state = LaunchState::kWaiting;
  }
  return fit;
}

void Engine::admit_those_that_fit() {
  while (admit_next_on_device() || admit_next_update()) {
  }
}

// In the order of issue as far as streams allow: one that does not fit holds back those behind it,
// so that it does not starve.
bool Engine::admit_next_on_device() {
  order_.set_window(window().launches_per_stream);  // which an admission may change
  const std::uint32_t slot = order_.next();
  if (slot == LaunchOrder::kNoSlot || !fits(slot)) {
    return false;
  }
  order_.admit_next(launches_.at(slot).launch);
  admit(slot);
  return true;
}

void Engine::admit(std::uint32_t slot) {
  if (pins_.held_for() == slot) {
    pins_.hold_for(kNoIndex, launches_);
  }
  LaunchTable::Record& record = launches_.at(slot);
  record.stage = LaunchStage::kAdmitted;
  ++admitted_;
  if (record.launch.reaches) {
    reach();
  }
  // Every block is pinned before room is made for any, so that making room for one cannot take
  // another; what is there already is taken back from whoever would have reclaimed it.
  absent_.clear();
  for (std::size_t i = 0; i < record.launch.accesses.size(); ++i) {
    const Access& access = record.launch.accesses[i];
    for (std::uint32_t k = 0; k < access.block_count; ++k) {
      // Streams are not admitted in the order of epochs.
      Block& block = space_.block(access.first_block + k);
      block.epoch = std::max(block.epoch, record.epochs[i]);
      take_up(access.first_block + k, access, record.claims);
    }
  }
  if (record.claims) {
    record.claims = false;
    pending_uses_.admitted(slot);
  }
  // An overwriting access may use a frame as it is only if the launch has no other access to it.
  for (const auto& [id, access] : absent_) {
    const Block& block = space_.block(id);
    if (block.copies.has(Tier::kDevice) && block.transfer == kNoIndex) {
      make_usable(id, overwrites_alone(block, *access));
    }
  }
  policy_->on_launch(record.launch, *this);
  pump();
  LaunchAdmission admission;
  for (const auto& [id, access] : absent_) {
    touch(slot, id, *access, admission);
  }
  if (admission.faulted_blocks > 0) {
    policy_->on_faults(record.launch, *this);
  }
  if (admission_ != nullptr && admission_->id == record.launch.id) {
    admission_->missing_blocks = admission.missing_blocks;
    admission_->faulted_blocks = admission.faulted_blocks;
  }
  release_if_ready(slot);
}

// Pins a block of a launch that is admitted. Where it is there and usable, nothing else need be
// done.
void Engine::take_up(BlockId id, const Access& access, bool claimed) {
  Block& block = space_.block(id);
  if (pins_.pin(id)) {
    queues_.update(id);
  }
  if (claimed) {
    pending_uses_.settle(id);
  }
  block.retired = false;  // who names it uses it
  if (access.mode == AccessMode::kExpose) {
    expose_block(id);
  }
  evictions_.take_back_wish(block);
  const bool may_write = !writes(access.mode) || block.writable;
  if (block.queue == PageQueue::kUsed && block.mapped && may_write &&
      block.contents != Contents::kDiscarded) {
    count_if_prefetched(block);
    return;
  }
  block.wants_write |= writes(access.mode);
  if (block.evicting && block.transfer == kNoIndex) {
    cancel_eviction(id);
  }
  absent_.emplace_back(id, &access);
}

// Whether nobody but this access will see the block's bytes before it has overwritten all of them.
// A frame that small allocations share has neighbours that it does not write.
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
  LaunchTable::Record& record = launches_.at(slot);
  ++admission.missing_blocks;
  if (!overwrites_alone(block, access)) {
    block.overwritten = false;
  }
  const bool on_its_way = block.transfer != kNoIndex || block.fetch != FetchState::kNone;
  waiters_.add(block, {.launch_slot = slot, .faulted = !on_its_way});
  ++record.missing;
  ++record.unsubmitted;
  if (on_its_way) {
    ++stats_.late_prefetches;
    block.prefetched = false;
    if (block.fetch == FetchState::kPrefetch) {
      fetches_.add(id, FetchState::kFault);
    } else if (options_.release_early && block.transfer != kNoIndex &&
               in_flight_transfers_.of(block).to == Tier::kDevice) {
      const TransferId transfer = in_flight_transfers_.of(block).id;
      if (record.waits.empty() || record.waits.back() != transfer) {
        record.waits.push_back(transfer);
      }
      --record.unsubmitted;
    }
    return;
  }
  ++record.faults_open;
  ++stats_.faults;
  ++admission.faulted_blocks;
  if (overwrites_alone(block, access)) {
    // It needs a frame only; its old contents are dead from here on.
    if (block.contents == Contents::kLive) {
      block.contents = Contents::kDiscarded;
      drop_copies_below(id);
    }
    (void)end_host_mapped(id);
    block.overwritten = true;
  }
  fetches_.add(id, FetchState::kFault);
  policy_->on_fault(record.launch, id, *this);
}

// --- Release ------------------------------------------------------------------------------------

void Engine::release_if_ready(std::uint32_t slot) {
  LaunchTable::Record& record = launches_.at(slot);
  if (record.stage != LaunchStage::kAdmitted || record.unsubmitted > 0 ||
      (record.missing > 0 && !options_.release_early)) {
    return;
  }
  record.stage = LaunchStage::kReleased;
  if (record.missing == 0) {
    launches_.runs(true);
  }
  ready_.push_back(slot);
}

// The transfer has been put on its way: launches that wait for its blocks need only wait for it.
void Engine::submitted(const Transfer& transfer) {
  for (const BlockId id : transfer.blocks) {
    waiters_.for_each(space_.block(id), [&](const Waiters::Waiter& waiter) {
      LaunchTable::Record& record = launches_.at(waiter.launch_slot);
      if (record.waits.empty() || record.waits.back() != transfer.id) {
        record.waits.push_back(transfer.id);
      }
      --record.unsubmitted;
      release_if_ready(waiter.launch_slot);
    });
  }
}

// A transfer that launches may have been released behind has failed: they wait for the next one.
void Engine::recalled(BlockId id, TransferId failed) {
  if (space_.block(id).at_host) {
    return;  // updates wait for it, which are behind no transfer
  }
  waiters_.for_each(space_.block(id), [&](const Waiters::Waiter& waiter) {
    LaunchTable::Record& record = launches_.at(waiter.launch_slot);
    std::erase(record.waits, failed);
    ++record.unsubmitted;
    record.stage = LaunchStage::kAdmitted;
  });
}

// The block is usable: launches that waited for it are one block nearer.
void Engine::wake(BlockId id, bool was_submitted) {
  Block& block = space_.block(id);
  if (block.at_host) {
    return;  // updates wait for it, and not for this
  }
  waiters_.for_each(block, [&](const Waiters::Waiter& waiter) {
    LaunchTable::Record& record = launches_.at(waiter.launch_slot);
    if (waiter.faulted && --record.faults_open == 0) {
      served_.push_back(record.launch.tag);
    }
    record.unsubmitted -= was_submitted ? 0 : 1;
    if (--record.missing == 0 && record.stage == LaunchStage::kReleased) {
      launches_.runs(true);
    }
    release_if_ready(waiter.launch_slot);
  });
  waiters_.clear(block);
}

// --- End ----------------------------------------------------------------------------------------

void Engine::end_launch(LaunchId id, TimeNs computed_ns) {
  assert(launches_.is_at(id, LaunchStage::kReleased));
  const std::uint32_t slot = LaunchTable::slot_of(id);
  LaunchTable::Record& record = launches_.at(slot);
  assert(record.missing == 0);
  record.launch.computed_ns = computed_ns;
  const bool update = record.launch.runs_at == Tier::kHost;
  update ? let_go_at_host(slot) : let_go_on_device(record.launch);
  end_uses(record);
  launches_.runs(false);
  --admitted_;
  if (record.launch.reaches) {
    exposed_.end_reach();
  }
  if (update) {
    policy_->on_update(UpdateStage::kEnded, record.launch, *this);
  } else {
    policy_->on_launch_end(record.launch, *this);
  }
  for (const AllocationId allocation : due_) {
    carry_out_due(allocation);
  }
  if (!update) {
    order_.ended(record.launch.stream);
  }
  launches_.give_back(slot);
  shrink();
  // What policies want between two launches comes before the next one.
  pump();
  batch_.flush();
  admit_those_that_fit();
  pump();
  settle();
}

// What was said of its operands and waited for it alone is due.
void Engine::end_uses(const LaunchTable::Record& record) {
  due_.clear();
  for (std::size_t i = 0; i < record.launch.accesses.size(); ++i) {
    const AllocationId allocation = record.launch.accesses[i].allocation;
    if (deferred_.end_use(allocation, record.epochs[i])) {
      due_.push_back(allocation);
    }
  }
}

void Engine::let_go_on_device(const Launch& launch) {
  for_each_block(launch, [&](BlockId id, const Access& access) {
    Block& block = space_.block(id);
    assert(block.copies.has(Tier::kDevice));
    const bool last = pins_.unpin(id);
    if (last) {
      queues_.update(id);
      updates_.let_go(id);
    }
    if (writes(access.mode)) {
      block.contents = Contents::kLive;
      drop_copies_below(id);
    }
    if (last) {
      move_down_if_final(id);
    }
  });
}

// --- Threads ------------------------------------------------------------------------------------

void Engine::thread_faults(const Launch& during, std::span<const ThreadFault> faults) {
  bool missing = false;
  for (const ThreadFault& fault : faults) {
    missing |= alive(fault.block) && thread_fault(during, fault);
  }
  if (missing) {
    policy_->on_faults(during, *this);
  }
  pump();
  settle();
}

// True if the block was neither there nor on its way.
bool Engine::thread_fault(const Launch& during, const ThreadFault& fault) {
  Block& block = space_.block(fault.block);
  evictions_.take_back_wish(block);
  block.wants_write |= fault.write;
  block.retired = false;  // whatever was promised
  if (block.at_host) {
    block.awaited = true;  // until the update has ended
    return false;
  }
  if (block.evicting && block.transfer == kNoIndex) {
    cancel_eviction(fault.block);
  }
  if (block.copies.has(Tier::kDevice) && block.transfer == kNoIndex) {
    count_if_prefetched(block);
    const bool served_before = block.mapped && (block.writable || !block.wants_write);
    make_usable(fault.block);
    if (served_before) {
      batch_.map(fault.block, block.writable);  // the thread's fault crossed what served it
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
      fetches_.add(fault.block, FetchState::kFault);
    }
    return false;
  }
  ++stats_.faults;
  fetches_.add(fault.block, FetchState::kFault);
  policy_->on_fault(during, fault.block, *this);
  return true;
}

void Engine::written_on_arrival(BlockId id) {
  Block& block = space_.block(id);
  assert(block.transfer != kNoIndex && in_flight_transfers_.of(block).to == Tier::kDevice);
  block.wants_write = true;
  block.retired = false;  // whatever was promised
}

// A block that is there is used: if a prefetch has brought it, that was not in vain.
void Engine::count_if_prefetched(Block& block) {
  if (block.prefetched) {
    block.prefetched = false;
    ++stats_.prefetches_used;
  }
}

void Engine::note_accesses(const Launch& during, BlockId first_block, std::uint32_t block_count) {
  note_uses(first_block, block_count);
  for (std::uint32_t i = 0; i < block_count; ++i) {
    if (alive(first_block + i)) {
      policy_->on_access(during, first_block + i, *this);
    }
  }
  settle();
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

}  // namespace spillway
