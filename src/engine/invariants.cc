// What must always hold, as code. See docs/engine.md, "Invariants".
#include <array>
#include <vector>

#include "engine/engine.h"

namespace spillway {
namespace {

Status broken(BlockId id, std::string_view what) {
  return make_error(ErrorCode::kDefect, "invariant broken: block {}: {}", id, what);
}

}  // namespace

Status Engine::check_invariants() const {
  std::array<Bytes, kTierCount> used{};
  std::array<Bytes, kTierCount> spare{};
  Bytes evicting = 0;
  Bytes pinned = 0;
  Bytes wished = 0;
  Bytes fault_bytes = 0;
  Bytes prefetch_bytes = 0;
  std::array<Bytes, 3> queued{};
  std::vector<std::uint32_t> waiting(launches_.size());  // blocks that each launch waits for
  for (BlockId id = 0; id < space_.block_slots(); ++id) {
    const Block& block = space_.block(id);
    for (std::size_t tier = 0; tier < kTierCount; ++tier) {
      used[tier] += block.frames.has(static_cast<Tier>(tier)) ? block.bytes : 0;
    }
    evicting += block.evicting ? block.bytes : 0;
    pinned += block.pins > 0 ? block.bytes : 0;
    wished += block.wished_out ? block.bytes : 0;
    fault_bytes += block.fetch == FetchState::kFault ? block.bytes : 0;
    prefetch_bytes += block.fetch == FetchState::kPrefetch ? block.bytes : 0;
    if (block.queue != PageQueue::kNone) {
      queued[static_cast<std::size_t>(block.queue) - 1] += block.bytes;
    }
    const bool on_device = block.copies.has(Tier::kDevice);
    if (!block.frames.contains(block.copies)) {
      return broken(id, "a copy without a frame");
    }
    if (block.contents == Contents::kLive && block.tenants > 0 && block.copies.empty()) {
      return broken(id, "its contents are alive and no tier has them");
    }
    if (block.tenants == 0 && block.transfer == kNoIndex && !block.frames.empty()) {
      return broken(id, "freed, not moving, and still holds a frame");
    }
    if (block.mapped && (!on_device || block.transfer != kNoIndex)) {
      return broken(id, "mapped while its device frame is not whole");
    }
    if (on_device && block.transfer == kNoIndex && !block.evicting &&
        block.queue == PageQueue::kNone) {
      return broken(id, "resident and in no page queue");
    }
    if (!on_device && block.queue != PageQueue::kNone) {
      return broken(id, "in a page queue without a device copy");
    }
    if (block.queue == PageQueue::kUnused && !block.copies.has(Tier::kHost) &&
        !block.copies.has(Tier::kStorage)) {
      return broken(id, "unused, and no lower tier has its contents");
    }
    if ((block.queue == PageQueue::kDiscarded) &&
        (block.contents != Contents::kDiscarded || block.pins > 0)) {
      return broken(id, "in the discarded queue with contents that matter");
    }
    if (on_device && block.pins == 0 && block.contents == Contents::kUndefined && !block.prepared) {
      return broken(id, "never written, and its frame was never zeroed");
    }
    if (block.writable && !block.mapped) {
      return broken(id, "writable and not mapped");
    }
    if (options_.tracks_writes && block.writable &&
        (block.copies.has(Tier::kHost) || block.copies.has(Tier::kStorage))) {
      return broken(id, "writable, and a lower tier claims to have its contents");
    }
    if (block.awaited && block.fetch == FetchState::kNone && block.transfer == kNoIndex) {
      return broken(id, "a thread waits for it, and nothing brings it");
    }
    for (std::size_t tier = 0; tier < kTierCount; ++tier) {
      spare[tier] += block.spare.has(static_cast<Tier>(tier)) ? block.bytes : 0;
    }
    if (!block.copies.contains(block.spare) || (!block.spare.empty() && !on_device)) {
      return broken(id, "its only copy counts as one that may go");
    }
    if (block.pins > 0 && on_device && block.transfer == kNoIndex && !block.mapped) {
      return broken(id, "used by a launch and not mapped");
    }
    if (block.queue == PageQueue::kUsed && !block.mapped && !reserved(block)) {
      return broken(id, "used and not mapped");
    }
    if (block.fetch != FetchState::kNone && (on_device || block.transfer != kNoIndex)) {
      return broken(id, "waits to be fetched while it is resident or moving");
    }
    for (std::uint32_t node = block.waiter; node != kNoIndex; node = waiters_[node].next) {
      ++waiting[waiters_[node].launch_slot];
    }
    if (block.waiter != kNoIndex && block.pins == 0) {
      return broken(id, "waited for by a launch that has not pinned it");
    }
    if (block.waiter != kNoIndex && block.fetch == FetchState::kNone &&
        block.transfer == kNoIndex) {
      return broken(id, "waited for, and nothing brings it");
    }
  }
  for (std::size_t slot = 0; slot < launches_.size(); ++slot) {
    const ActiveLaunch& active = launches_[slot];
    if (active.live && active.missing != waiting[slot]) {
      return make_error(ErrorCode::kDefect,
                        "invariant broken: launch {} counts {} missing blocks and waits for {}",
                        active.launch.seq, active.missing, waiting[slot]);
    }
  }
  for (std::size_t tier = 0; tier < kTierCount; ++tier) {
    if (used[tier] != tiers_[tier].used_bytes || used[tier] > tiers_[tier].limit_bytes) {
      return make_error(ErrorCode::kDefect,
                        "invariant broken: {} holds {} bytes, its account says {} of at most {}",
                        name_of(static_cast<Tier>(tier)), used[tier], tiers_[tier].used_bytes,
                        tiers_[tier].limit_bytes);
    }
    if (spare[tier] != tiers_[tier].spare_bytes) {
      return make_error(ErrorCode::kDefect, "invariant broken: {} holds {} spare bytes, counted {}",
                        name_of(static_cast<Tier>(tier)), spare[tier], tiers_[tier].spare_bytes);
    }
  }
  for (const PageQueue queue : {PageQueue::kUnused, PageQueue::kDiscarded, PageQueue::kUsed}) {
    if (queued[static_cast<std::size_t>(queue) - 1] != queues_.bytes(queue)) {
      return make_error(ErrorCode::kDefect, "invariant broken: a page queue lost blocks");
    }
  }
  Bytes copying_ahead = 0;
  for (const Flight& flight : flights_) {
    if (flight.live && flight.transfer.cause == Cause::kPreEvict &&
        flight.transfer.from == Tier::kDevice) {
      copying_ahead += flight.transfer.bytes;
    }
  }
  if (wished + copying_ahead !=
      pre_evicting_bytes(Tier::kHost) + pre_evicting_bytes(Tier::kStorage)) {
    return make_error(ErrorCode::kDefect, "invariant broken: pre-evictions {} + {}, counted {}",
                      wished, copying_ahead,
                      pre_evicting_bytes(Tier::kHost) + pre_evicting_bytes(Tier::kStorage));
  }
  if (evicting != evicting_bytes_ || pinned != pinned_bytes_ || fault_bytes != fault_bytes_ ||
      prefetch_bytes != prefetch_bytes_) {
    return make_error(ErrorCode::kDefect,
                      "invariant broken: counters (evicting {}/{}, pinned {}/{}, faults {}/{}, "
                      "prefetches {}/{})",
                      evicting, evicting_bytes_, pinned, pinned_bytes_, fault_bytes, fault_bytes_,
                      prefetch_bytes, prefetch_bytes_);
  }
  return {};
}

}  // namespace spillway
