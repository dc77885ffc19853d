// What comes to the device: fetch queues, the arbiter that forms batches from them, arrivals.
// See engine.h. Faults come before prefetches (G10 section 4.6; DeepUM section 3.1).
#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "engine/engine.h"

namespace spillway {
namespace {

std::size_t index_of(FetchState priority) { return priority == FetchState::kFault ? 0 : 1; }
std::size_t index_of(Source source) { return static_cast<std::size_t>(source); }

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

}  // namespace

Source Engine::source_of(const Block& block) {
  if (block.contents != Contents::kLive) {
    return Source::kZeros;
  }
  return block.copies.has(Tier::kHost) ? Source::kHostCopy : Source::kStorageCopy;
}

void Engine::enqueue_fetch(BlockId id, FetchState priority) {
  Block& block = space_.block(id);
  assert(block.transfer == kNoIndex && !block.copies.has(Tier::kDevice));
  leave_fetch_queue(block);
  block.fetch = priority;
  if (priority == FetchState::kFault) {
    fault_bytes_ += block.bytes;
  } else {
    prefetch_bytes_ += block.bytes;
  }
  fetch_queues_[index_of(priority)][index_of(source_of(block))].push_back(
      {.block = id, .order = ++fetch_order_});
}

// The entry in the queue stays behind and is skipped when it comes up.
void Engine::leave_fetch_queue(Block& block) {
  if (block.fetch == FetchState::kFault) {
    fault_bytes_ -= block.bytes;
  } else if (block.fetch == FetchState::kPrefetch) {
    prefetch_bytes_ -= block.bytes;
  }
  block.fetch = FetchState::kNone;
}

void Engine::prefetch(BlockId id) {
  if (!alive(id)) {
    return;
  }
  Block& block = space_.block(id);
  take_back_wish(block);
  if (block.evicting && block.transfer == kNoIndex) {
    cancel_eviction(id);
  }
  if (block.copies.has(Tier::kDevice)) {
    if (block.transfer == kNoIndex && !reserved(block)) {
      make_usable(id);
      queues_.push(PageQueue::kUsed, id);
    }
    return;
  }
  if (block.transfer == kNoIndex && block.fetch == FetchState::kNone) {
    enqueue_fetch(id, FetchState::kPrefetch);
  }
}

void Engine::cancel_prefetches() {
  for (auto& queue : fetch_queues_[index_of(FetchState::kPrefetch)]) {
    for (const FetchWish& wish : queue) {
      Block& block = space_.block(wish.block);
      if (block.fetch == FetchState::kPrefetch) {
        leave_fetch_queue(block);
      }
    }
    queue.clear();
  }
}

// The arbiter. Most urgent first: what launches wait for, the evictions that make room for it, then
// copies ahead of need, then prefetches into the room that is left.
void Engine::pump() {
  if (fatal_) {
    return;
  }
  form_fault_fetches();
  for (const Cause cause : {Cause::kEvict, Cause::kPreEvict}) {
    form_evictions(cause, Tier::kHost);
    form_evictions(cause, Tier::kStorage);
  }
  if (fault_bytes_ > 0 && in_flight_ == 0) {
    form_fault_fetches();  // a wish that they waited for has come to nothing
    form_evictions(Cause::kEvict, Tier::kHost);
    form_evictions(Cause::kEvict, Tier::kStorage);
  }
  form_moves_down();
  form_prefetches();
  // Prefetches may have chosen victims.
  form_evictions(Cause::kEvict, Tier::kHost);
  form_evictions(Cause::kEvict, Tier::kStorage);
}

void Engine::form_fault_fetches() {
  for (const Source source : {Source::kZeros, Source::kHostCopy, Source::kStorageCopy}) {
    form_fetches(FetchState::kFault, source, kNoLimit);
  }
}

// Room goes to what was wished for first, wherever it comes from: memory without contents needs no
// transfer, and would else take it from what is used before.
void Engine::form_prefetches() {
  auto& queues = fetch_queues_[index_of(FetchState::kPrefetch)];
  const auto first = [&](std::size_t source) {
    return queues[source].empty() ? kNoLimit : queues[source].front().order;
  };
  while (true) {
    std::size_t next = kSourceCount;
    std::uint64_t limit = kNoLimit;
    for (std::size_t source = 0; source < kSourceCount; ++source) {
      const Lane& lane = fetch_lanes_[index_of(FetchState::kPrefetch)][source];
      if (lane.in_flight >= lane.in_flight_max || first(source) == kNoLimit) {
        continue;
      }
      if (next == kSourceCount || first(source) < first(next)) {
        limit = next == kSourceCount ? limit : first(next);
        next = source;
      } else {
        limit = std::min(limit, first(source));
      }
    }
    if (next == kSourceCount ||
        !form_fetches(FetchState::kPrefetch, static_cast<Source>(next), limit)) {
      return;
    }
  }
}

// Those that were wished for before `limit`. False if there was no room for one of them.
bool Engine::form_fetches(FetchState priority, Source source, std::uint64_t limit) {
  std::deque<FetchWish>& queue = fetch_queues_[index_of(priority)][index_of(source)];
  Lane& lane = fetch_lanes_[index_of(priority)][index_of(source)];
  const Tier from = source == Source::kHostCopy ? Tier::kHost : Tier::kStorage;
  const Bytes batch_bytes =
      from == Tier::kHost ? options_.host_batch_bytes : options_.storage_batch_bytes;
  bool room = true;
  const auto next = [&] { return !queue.empty() && queue.front().order < limit; };
  while (room && next() && lane.in_flight < lane.in_flight_max) {
    Transfer transfer{.from = from,
                      .to = Tier::kDevice,
                      .cause = priority == FetchState::kFault ? Cause::kFault : Cause::kPrefetch};
    const std::uint32_t slot = next_flight_slot();
    while (next() && transfer.bytes < batch_bytes) {
      const BlockId id = queue.front().block;
      Block& block = space_.block(id);
      if (block.fetch != priority || source_of(block) != source) {
        queue.pop_front();
        continue;
      }
      if (!take_device_frame(id, priority)) {
        room = false;
        break;
      }
      queue.pop_front();
      leave_fetch_queue(block);
      block.prefetched = priority == FetchState::kPrefetch;
      stats_.prefetched += block.prefetched ? 1 : 0;
      if (source == Source::kZeros) {
        arrive_zeroed(id);
        continue;
      }
      add_to(transfer, slot, id);
    }
    if (transfer.blocks.empty()) {
      break;
    }
    start(slot, std::move(transfer), lane);
  }
  return room;
}

bool Engine::take_device_frame(BlockId id, FetchState priority) {
  const Bytes bytes = space_.block(id).bytes;
  const bool fault = priority == FetchState::kFault;
  const Bytes ahead =
      fault ? std::min(fault_bytes_, options_.room_ahead_bytes) : options_.room_ahead_bytes;
  // A prefetch leaves alone the room that faults wait for.
  const Bytes need = fault ? bytes : bytes + fault_bytes_;
  if (!make_room(need, ahead, fault ? Cause::kFault : Cause::kPrefetch, id)) {
    return false;
  }
  take_frame(id, Tier::kDevice);
  space_.block(id).prepared = false;
  return true;
}

// A block without contents to fetch: its frame is there at once, of zeros where anybody may look.
// Nobody looks at what is retired: its frame is only set aside, until it is known whether who uses
// it next overwrites it.
void Engine::arrive_zeroed(BlockId id) {
  Block& block = space_.block(id);
  if (block.contents == Contents::kDiscarded) {
    stats_.saved_by_discard_bytes += block.bytes;  // the way down and back was spared
  }
  if (block.retired) {
    block.copies.add(Tier::kDevice);
    queues_.push(PageQueue::kUsed, id);
    return;
  }
  if (block.contents == Contents::kDiscarded) {
    block.contents = Contents::kUndefined;
  }
  if (!block.overwritten) {
    prepare(id);
  }
  block.overwritten = false;
  block.copies.add(Tier::kDevice);
  make_usable(id);
  wake(id);
}

// The device frame becomes, or is again, one that launches use. A recovered block whose frame was
// never prepared as a whole is zeroed first (UVM Discard section 5.7), unless the launch that wants
// it overwrites all of it.
void Engine::make_usable(BlockId id, bool overwritten) {
  Block& block = space_.block(id);
  if (block.contents == Contents::kDiscarded && !block.retired) {
    ++stats_.recovered;
    if (!block.prepared && !overwritten) {
      prepare(id);
    }
    block.contents = Contents::kUndefined;
  }
  if (block.queue == PageQueue::kUnused) {
    keep_or_drop_copies_below(id);
  }
  if (block.queue != PageQueue::kUsed) {
    queues_.push(PageQueue::kUsed, id);
  }
  // What is retired stays dead until it is reused, and only then is it written: a frame that waits
  // for that may be writable from the start.
  const bool writable =
      block.writable || block.wants_write || block.retired || !options_.tracks_writes;
  if (!block.mapped || writable != block.writable) {
    block.mapped = true;
    block.writable = writable;
    mechanism_->map(id, writable);
  }
  block.awaited = false;
  block.wants_write = false;
  if (options_.tracks_writes && writable && !block.retired) {
    // From here on nobody sees whether it is written.
    block.contents = Contents::kLive;
    drop_copies_below(id);
  }
}

void Engine::prepare(BlockId id) {
  ++stats_.zeroed;
  mechanism_->zero(id);
  space_.block(id).prepared = true;
}

// The device has the contents now: other copies only take up room, or save writing them again.
void Engine::keep_or_drop_copies_below(BlockId id) {
  for (const Tier tier : {Tier::kHost, Tier::kStorage}) {
    if (!space_.block(id).frames.has(tier)) {
      continue;
    }
    if (options_.tracks_writes || (options_.keep_storage_copies && tier == Tier::kStorage)) {
      add_spare(id, tier);
    } else {
      drop_frame(id, tier);
    }
  }
}

void Engine::fetch_finished(BlockId id) {
  Block& block = space_.block(id);
  block.copies.add(Tier::kDevice);
  block.prepared = true;
  if (block.tenants == 0) {
    release_if_gone(id);
    return;
  }
  if (block.contents == Contents::kDiscarded) {
    drop_copies_below(id);
    queues_.push(PageQueue::kDiscarded, id);
    if (!needed(block)) {
      return;
    }
  } else {
    keep_or_drop_copies_below(id);
  }
  make_usable(id);
  wake(id);
}

void Engine::fetch_failed(BlockId id) {
  Block& block = space_.block(id);
  drop_frame(id, Tier::kDevice);
  if (block.tenants == 0) {
    release_if_gone(id);
    return;
  }
  if (block.contents == Contents::kDiscarded) {
    drop_copies_below(id);
  }
  block.prefetched = false;
  if (needed(block)) {
    enqueue_fetch(id, FetchState::kFault);
  }
}

}  // namespace spillway
