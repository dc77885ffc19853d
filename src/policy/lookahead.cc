// See lookahead.h.
#include "policy/lookahead.h"

#include <algorithm>

#include "engine/claims.h"
#include "engine/for_each_block.h"
#include "engine/page_queues.h"
#include "engine/space.h"

namespace spillway {
namespace {

// Memory that holds nothing is made ready for so many launches.
constexpr LaunchSeq kLaunchesReady = 4;
// Once something has had to leave, so much of the device is kept free or can be given up at once.
constexpr Bytes kReadyPart = 4;
// How many blocks one event looks at for that.
constexpr std::size_t kLooks = 128;
// Copies ahead of need that wait for their transfer.
constexpr Bytes kCopyingBytes = 64 * kMiB;

}  // namespace

void AheadOfLaunches::advance(LaunchSeq until, Control& control) {
  const Claims& claims = control.claims();
  const Launch* launch = claims.issued_only(again_);
  if (launch == nullptr) {
    // One that should have been looked at again has been admitted: others behind it have not.
    launch = claims.next_issued(again_ == kNoLaunch ? last_ : kNoLaunch);
    while (launch != nullptr && launch->seq <= seen_) {  // or of a stream that stands still
      launch = claims.next_issued(launch->id);
    }
  }
  again_ = kNoLaunch;
  while (launch != nullptr && launch->seq <= until &&
         control.queued_prefetch_bytes() < waiting_bytes_) {
    for_each_block(*launch, [&](BlockId id, const Access& /*access*/) {
      const bool holds = control.space().block(id).contents == Contents::kLive;
      if (holds == (what_ == What::kContents) && !control.usable(id) && !control.on_its_way(id)) {
        control.prefetch(id);
      }
    });
    last_ = launch->id;
    seen_ = launch->seq;
    launch = claims.next_issued(launch->id);
  }
}

void AheadOfLaunches::leaves(BlockId block, const Control& control) {
  const LaunchSeq next_use = control.claims().next_use(block);
  if (next_use <= seen_) {
    again_ = control.claims().next_launch(block);
    seen_ = next_use - 1;
  }
}

void AheadOfDevice::advance(Control& control) {
  window_.extend(control);
  if (const Launch* const first = control.claims().next_issued(kNoLaunch)) {
    frames_.advance(std::min(window_.end(), first->seq + kLaunchesReady), control);
  }
  contents_.advance(window_.end(), control);
  // Where no launch waits to be admitted nothing is known of what is needed.
  const bool room_below =
      control.free_bytes(Tier::kHost) > 0 || control.free_bytes(Tier::kStorage) > 0;
  if (pressed_ && room_below && control.claims().waiting() > 0) {
    copy_down_ahead(control);
  }
}

// What will have to leave is copied down before its room is needed: what no issued launch names,
// then what is needed last, beyond the window.
void AheadOfDevice::copy_down_ahead(Control& control) {
  const Claims& claims = control.claims();
  const PageQueues& queues = control.queues();
  const auto copying_bytes = [&] {
    return control.pre_evicting_bytes(Tier::kHost) + control.pre_evicting_bytes(Tier::kStorage);
  };
  const Bytes ready_bytes = control.free_bytes(Tier::kDevice) + queues.bytes(PageQueue::kUnused) +
                            queues.bytes(PageQueue::kDiscarded);
  const Bytes target_bytes = control.capacity_bytes(Tier::kDevice) / kReadyPart;
  std::size_t looks = 0;
  const auto wanted = [&] {
    return looks++ < kLooks && copying_bytes() < kCopyingBytes &&
           ready_bytes + copying_bytes() < target_bytes;
  };
  const auto copy_down = [&](BlockId id) {
    const Block& block = control.space().block(id);
    if (block.contents == Contents::kLive && !block.wished_out) {
      const bool room =
          control.free_bytes(Tier::kHost) > control.pre_evicting_bytes(Tier::kHost) + block.bytes;
      control.pre_evict(id, room ? Tier::kHost : Tier::kStorage);
    }
  };
  for (BlockId id = queues.oldest_unclaimed(); id != kNoBlock && wanted();
       id = queues.newer_unclaimed(id)) {
    copy_down(id);
  }
  for (BlockId id = claims.needed_last();
       id != kNoBlock && claims.next_use(id) > window_.end() && wanted();
       id = claims.needed_before(id)) {
    copy_down(id);
  }
}

void AheadOfDevice::leaves(BlockId block, const Control& control) {
  pressed_ = true;
  frames_.leaves(block, control);
  contents_.leaves(block, control);
}

std::optional<BlockId> needed_last(Cause cause, BlockId incoming, const Control& control) {
  if (const BlockId id = control.queues().oldest_unclaimed(); id != kNoBlock) {
    return id;
  }
  const BlockId last = control.claims().needed_last();
  if (last == kNoBlock) {
    return std::nullopt;
  }
  const bool worth_it = cause == Cause::kFault ||
                        control.claims().next_use(last) > control.claims().next_use(incoming);
  return worth_it ? std::optional(last) : std::nullopt;
}

void Lookahead::on_issue(const Launch& /*launch*/, Control& control) { ahead_.advance(control); }

void Lookahead::on_launch(const Launch& launch, Control& control) {
  ahead_.admitted(launch, control);
  ahead_.advance(control);
}

void Lookahead::on_launch_end(const Launch& launch, Control& control) {
  ahead_.ended(launch, control);
  ahead_.advance(control);
}

std::optional<BlockId> Lookahead::select_victim(Cause cause, BlockId incoming,
                                                const Control& control) {
  const std::optional<BlockId> victim = needed_last(cause, incoming, control);
  if (victim) {
    ahead_.leaves(*victim, control);
  }
  return victim;
}

}  // namespace spillway
