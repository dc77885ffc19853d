// What must always hold between the parts; each part checks its own records. See docs/engine.md,
// "Invariants".
#include <vector>

#include "engine/broken.h"
#include "engine/engine.h"
#include "engine/memory/for_each_block.h"

namespace spillway {
namespace {

// What one block says of itself.
std::string_view wrong_with(const Block& block, const EngineOptions& options, bool arriving,
                            bool reserved, bool brought) {
  const bool on_device = block.copies.has(Tier::kDevice);
  const bool below = safe_below(block);
  const bool copied_down = on_device && block.transfer != kNoIndex && block.stays;
  const bool wanted = block.fetch != FetchState::kNone || block.transfer != kNoIndex;
  if (block.contents == Contents::kLive && block.tenants > 0 && block.copies.empty()) {
    return "its contents are alive and no tier has them";
  }
  if (block.tenants == 0 && block.transfer == kNoIndex && !block.frames.empty()) {
    return "freed, not moving, and still holds a frame";
  }
  // A launch may be released behind the transfer that fills the frame.
  if (block.mapped && !(options.release_early && arriving) &&
      (!on_device || block.transfer != kNoIndex)) {
    return "mapped while its device frame is not whole";
  }
  if (on_device && block.transfer == kNoIndex && !block.evicting &&
      block.queue == PageQueue::kNone) {
    return "resident and in no page queue";
  }
  if (!on_device && block.queue != PageQueue::kNone) {
    return "in a page queue without a device copy";
  }
  if (block.queue == PageQueue::kUnused && !below) {
    return "unused, and no lower tier has its contents";
  }
  if (block.queue == PageQueue::kDiscarded &&
      (block.contents != Contents::kDiscarded || block.pins > 0)) {
    return "in the discarded queue with contents that matter";
  }
  if (on_device && block.pins == 0 && block.contents == Contents::kUndefined && !block.prepared) {
    return "never written, and its frame was never zeroed";
  }
  if (block.writable && !block.mapped) {
    return "writable and not mapped";
  }
  if (options.tracks_writes && block.writable && below) {
    return "writable, and a lower tier claims to have its contents";
  }
  if (block.awaited && !wanted && !block.at_host) {
    return "a thread waits for it, and nothing brings it";
  }
  if (pinned_on_device(block) && on_device && block.transfer == kNoIndex && !block.mapped) {
    return "used by a launch and not mapped";
  }
  if (block.queue == PageQueue::kUsed && !block.mapped && !reserved && !copied_down) {
    return "used and not mapped";
  }
  if (block.waiter != kNoIndex && block.pins == 0) {
    return "waited for by a launch that has not pinned it";
  }
  if (block.waiter != kNoIndex && !wanted && !(block.at_host && block.evicting) && !brought) {
    return "waited for, and nothing brings it";
  }
  return {};
}

}  // namespace

Status Engine::check_invariants() const {
  std::vector<std::uint32_t> waiting(launches_.slots());  // blocks that each launch waits for
  std::vector<std::uint32_t> coming(launches_.slots());   // ... and that no transfer brings yet
  for (BlockId id = 0; id < space_.block_slots(); ++id) {
    const Block& block = space_.block(id);
    const bool arriving =
        block.transfer != kNoIndex && in_flight_transfers_.of(block).to == Tier::kDevice;
    if (const std::string_view what =
            wrong_with(block, options_, arriving, reserved(block), updates_.brings(id));
        !what.empty()) {
      return broken(id, what);
    }
    if (block.gathered != 0) {
      return broken(id, "the mechanism has not heard what it was asked");
    }
    waiters_.for_each(block, [&](const Waiters::Waiter& waiter) {
      ++waiting[waiter.launch_slot];
      coming[waiter.launch_slot] += options_.release_early && arriving && !block.at_host ? 0 : 1;
    });
  }
  std::uint32_t admitted = 0;
  for (std::uint32_t slot = 0; slot < launches_.slots(); ++slot) {
    const LaunchTable::Record& record = launches_.at(slot);
    if (record.stage == LaunchStage::kNone) {
      continue;
    }
    admitted += record.stage != LaunchStage::kIssued ? 1U : 0U;
    if (record.missing != waiting[slot] || record.unsubmitted != coming[slot]) {
      return make_error(ErrorCode::kDefect,
                        "invariant broken: launch {} counts {} missing blocks, {} of them not on "
                        "their way, and waits for {} and {}",
                        record.launch.seq, record.missing, record.unsubmitted, waiting[slot],
                        coming[slot]);
    }
    const bool may_run = record.unsubmitted == 0 && (options_.release_early || record.missing == 0);
    if (record.stage == LaunchStage::kReleased && !may_run) {
      return broken("a launch is released and its blocks are not there");
    }
    if (record.stage == LaunchStage::kAdmitted && may_run) {
      return broken("a launch could run and is not released");
    }
  }
  if (Status held = check_updates(); !held) {
    return held;
  }
  if (admitted != admitted_) {
    return broken("admitted launches were counted wrongly");
  }
  if (free_frames_.bytes() > free_bytes(Tier::kDevice)) {
    return broken("more of the device's frames are free than there is room");
  }
  for (const Status& status :
       {space_.check(), tiers_.check(), queues_.check(), pending_uses_.check(), launches_.check(),
        order_.check(), in_flight_transfers_.check(), pins_.check(), updates_.check(),
        deferred_.check(), fetches_.check(), exposed_.check(),
        evictions_.check(in_flight_transfers_.copying_ahead_bytes())}) {
    if (!status) {
      return status;
    }
  }
  return {};
}

// None waits that could be admitted, but behind one for which host memory has no room.
Status Engine::check_updates() const {
  Status whole;
  updates_.for_each_standing([&](std::uint32_t slot, BlockId at) {
    const Launch& launch = launches_.at(slot).launch;
    bool holds = false;
    for_each_block(launch, [&](BlockId id, const Access& access) {
      holds = holds || (id == at && in_the_way(id, access, launch.seq));
    });
    if (!holds) {
      whole = broken(at, "an update stands at it that nothing holds there");
    }
  });
  const std::uint32_t next = updates_.next();
  if (next != kNoIndex && (in_the_way_of(launches_.at(next).launch) != kNoBlock ||
                           has_room_at_host(launches_.at(next).launch))) {
    return broken("an update could be admitted, or could not be asked about, and is");
  }
  return whole;
}

}  // namespace spillway
