// What comes to the device: fetch queues, the arbiter that forms batches from them, arrivals.
// See engine.h. Faults come before prefetches (G10 section 4.6; DeepUM section 3.1).
#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "engine/engine.h"

namespace spillway {
namespace {

std::size_t index_of(FetchState priority) { return priority == FetchState::kFault ? 0 : 1; }
std::size_t index_of(Source source) { return static_cast<std::size_t>(source); }

}  // namespace

void Engine::prefetch(BlockId id) {
  if (!alive(id)) {
    return;
  }
  Block& block = space_.block(id);
  if (block.at_host || (block.retired && ignores_wishes())) {
    return;
  }
  evictions_.take_back_wish(block);
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
    fetches_.add(id, FetchState::kPrefetch);
  }
}

// The arbiter. Most urgent first: what launches wait for, the evictions that make room for it, then
// copies ahead of need, then prefetches into the room that is left.
void Engine::pump() {
  if (fatal_) {
    return;
  }
  if (asked_.has_ups()) {
    bring_what_was_asked_for();
  }
  // Most events of a program that fits: nobody waits, nothing is wished for.
  if (fetches_.fault_bytes() + fetches_.prefetch_bytes() + evictions_.promised_bytes() +
              evictions_.ahead_bytes(Tier::kHost) + evictions_.ahead_bytes(Tier::kStorage) ==
          0 &&
      !updates_.waiting()) {
    form_moves_down();
    fetch_ahead_for_updates();
    return;
  }
  form_fault_fetches();
  form_update_moves();
  for (const Cause cause : {Cause::kEvict, Cause::kPreEvict}) {
    form_evictions(cause, Tier::kHost);
    form_evictions(cause, Tier::kStorage);
  }
  if (fetches_.fault_bytes() > 0 && in_flight_transfers_.under_way() == 0) {
    form_fault_fetches();  // a wish that they waited for has come to nothing
    form_evictions(Cause::kEvict, Tier::kHost);
    form_evictions(Cause::kEvict, Tier::kStorage);
  }
  form_moves_down();
  fetch_ahead_for_updates();
  form_prefetches();
  // Prefetches may have chosen victims.
  form_evictions(Cause::kEvict, Tier::kHost);
  form_evictions(Cause::kEvict, Tier::kStorage);
  if (updates_.waiting() && in_flight_transfers_.under_way() == 0) {
    form_update_moves();  // what has lost its device frame since can leave host memory
    form_evictions(Cause::kEvict, Tier::kHost);
  }
}

void Engine::form_fault_fetches() {
  if (fetches_.fault_bytes() == 0) {
    return;
  }
  for (const Source source : {Source::kZeros, Source::kHostCopy, Source::kStorageCopy}) {
    form_fetches(FetchState::kFault, source, FetchQueue::kNoLimit);
  }
}

// Room goes to what was wished for first, wherever it comes from: memory without contents needs no
// transfer, and would else take it from what is used before.
void Engine::form_prefetches() {
  constexpr FetchState kPrefetch = FetchState::kPrefetch;
  while (fetches_.prefetch_bytes() > 0) {
    std::optional<Source> next;
    std::uint64_t first = FetchQueue::kNoLimit;
    std::uint64_t limit = FetchQueue::kNoLimit;
    for (const Source source : {Source::kZeros, Source::kHostCopy, Source::kStorageCopy}) {
      const std::uint64_t order = fetches_.head_order(kPrefetch, source);
      if (order == FetchQueue::kNoLimit ||
          fetch_lanes_[index_of(kPrefetch)][index_of(source)].full()) {
        continue;
      }
      if (order < first) {
        limit = first;
        first = order;
        next = source;
      } else {
        limit = std::min(limit, order);
      }
    }
    if (!next || !form_fetches(kPrefetch, *next, limit)) {
      return;
    }
  }
}

// Those that were wished for before `limit`. False if there was no room for one of them.
bool Engine::form_fetches(FetchState priority, Source source, std::uint64_t limit) {
  Lane& lane = fetch_lanes_[index_of(priority)][index_of(source)];
  const Tier from = source == Source::kHostCopy ? Tier::kHost : Tier::kStorage;
  const Bytes batch_bytes =
      from == Tier::kHost ? options_.host_batch_bytes : options_.storage_batch_bytes;
  bool room = true;
  while (room && !lane.full()) {
    Transfer transfer{.from = from,
                      .to = Tier::kDevice,
                      .cause = priority == FetchState::kFault ? Cause::kFault : Cause::kPrefetch};
    while (transfer.bytes < batch_bytes) {
      const std::optional<BlockId> id = fetches_.front(priority, source, limit);
      if (!id) {
        break;
      }
      if (!take_device_frame(*id, priority)) {
        room = false;
        break;
      }
      fetches_.pop(priority, source);
      Block& block = space_.block(*id);
      block.prefetched = priority == FetchState::kPrefetch;
      stats_.prefetched += block.prefetched ? 1 : 0;
      if (source == Source::kZeros) {
        arrive_zeroed(*id);
        continue;
      }
      in_flight_transfers_.add(transfer, *id);
    }
    if (transfer.blocks.empty()) {
      break;
    }
    start(std::move(transfer), lane);
  }
  return room;
}

bool Engine::take_device_frame(BlockId id, FetchState priority) {
  const Bytes bytes = device_bytes(space_.block(id));
  const bool fault = priority == FetchState::kFault;
  const Bytes ahead = fault ? std::min(fetches_.fault_bytes(), options_.room_ahead_bytes)
                            : options_.room_ahead_bytes;
  // A prefetch leaves alone the room that faults wait for.
  const Bytes need = fault ? bytes : bytes + fetches_.fault_bytes();
  if (bytes > 0 && !make_room(need, ahead, fault ? Cause::kFault : Cause::kPrefetch, id)) {
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
  wake(id, false);
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
  if (block.exposed && block.contents == Contents::kUndefined) {
    block.contents = Contents::kLive;
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
    batch_.map(id, writable);
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
  batch_.zero(id);
  space_.block(id).prepared = true;
}

// The device has the contents now: other copies only take up room, or save writing them again.
void Engine::keep_or_drop_copies_below(BlockId id) {
  const bool may_be_written = space_.block(id).exposed && exposed_.is_reached();
  for (const Tier tier : {Tier::kHost, Tier::kStorage}) {
    if (!space_.block(id).frames.has(tier)) {
      continue;
    }
    if (keeps_clean_copies(tier) && !may_be_written) {
      tiers_.add_spare(id, tier);
    } else {
      drop_frame(id, tier);
    }
  }
  exposed_.add_if_clean(id);
}

// `reached`: launches ran while it came that may write what is exposed.
void Engine::fetch_finished(BlockId id, bool reached) {
  Block& block = space_.block(id);
  block.copies.add(Tier::kDevice);
  block.prepared = true;
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
    if (!needed(block) && !block.wants_write) {  // nor written since, on its way
      if (block.mapped) {
        unmap(id);
      }
      return;
    }
  } else if (reached && block.exposed) {
    drop_copies_below(id);
  } else {
    keep_or_drop_copies_below(id);
  }
  make_usable(id);
  wake(id, options_.release_early);
}

void Engine::fetch_failed(BlockId id, TransferId transfer) {
  Block& block = space_.block(id);
  if (options_.release_early) {
    recalled(id, transfer);
    unmap(id);
  }
  drop_frame(id, Tier::kDevice);
  if (block.tenants == 0) {
    release_if_gone(id);
    return;
  }
  if (block.contents == Contents::kDiscarded) {
    drop_copies_below(id);
  }
  (void)end_host_mapped(id);
  block.prefetched = false;
  if (needed(block)) {
    fetches_.add(id, FetchState::kFault);
  }
}

}  // namespace spillway
