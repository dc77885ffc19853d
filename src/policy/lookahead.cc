// See lookahead.h.
#include "policy/lookahead.h"

#include <algorithm>

#include "engine/launches/pending_uses.h"
#include "engine/memory/for_each_block.h"
#include "engine/memory/space.h"

namespace spillway {
void AheadOfLaunches::advance(LaunchSeq until, Control& control) {
  const PendingUses& uses = control.pending_uses();
  const Launch* launch = uses.issued_only(again_);
  if (launch == nullptr) {
    // One that should have been looked at again has been admitted: others behind it have not.
    launch = uses.next_issued(again_ == kNoLaunch ? last_ : kNoLaunch);
    while (launch != nullptr && launch->seq <= seen_) {  // or of a stream that stands still
      launch = uses.next_issued(launch->id);
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
    launch = uses.next_issued(launch->id);
  }
}

void AheadOfLaunches::leaves(BlockId block, const Control& control) {
  const LaunchSeq next_use = control.pending_uses().next_use(block);
  if (next_use <= seen_) {
    again_ = control.pending_uses().next_launch(block);
    seen_ = next_use - 1;
  }
}

void AheadOfLaunches::updated(const Launch& update, const Control& control) {
  for_each_block(update, [&](BlockId id, const Access& access) {
    if (writes(access.mode)) {
      leaves(id, control);
    }
  });
}

void AheadOfDevice::advance(Control& control) {
  window_.extend(control);
  if (const Launch* const first = control.pending_uses().next_issued(kNoLaunch)) {
    frames_.advance(std::min(window_.end(), first->seq + AheadOfLaunches::kFramesAhead), control);
  }
  contents_.advance(window_.end(), control);
  if (!pressed_) {
    return;
  }
  if (control.free_bytes(Tier::kHost) > 0 || control.free_bytes(Tier::kStorage) > 0) {
    early_writeback_.advance(window_.end(), control);
  }
  reuse_prefetcher_.advance(control);
}

void AheadOfDevice::issued(const Launch& launch, const Control& control) {
  if (pressed_) {
    reuse_prefetcher_.issued(launch, control);
    read_in_turn_.issued(launch, control);
    idle_evictor_.issued(launch, control);
  }
}

void AheadOfDevice::ended(const Launch& launch, Control& control) {
  window_.ended(launch);
  if (pressed_) {
    early_writeback_.ended(launch, control);
    small_.ended(launch);
    reuse_prefetcher_.ended(launch, control);
    read_in_turn_.ended(launch, control);
    idle_evictor_.ended(launch, control);
  }
}

void AheadOfDevice::dies(AllocationId id) {
  if (pressed_) {
    idle_evictor_.dies(id);
  }
}

void AheadOfDevice::leaves(BlockId block, const Control& control) {
  pressed_ = true;
  early_writeback_.leaves(block, control);
  small_.leaves(block, control);
  reuse_prefetcher_.leaves(block, control);
  read_in_turn_.leaves(block, control);
  frames_.leaves(block, control);
  contents_.leaves(block, control);
}

std::optional<BlockId> AheadOfDevice::victim(Cause cause, BlockId incoming,
                                             const Control& control) {
  if (const std::optional<BlockId> id = copied(control)) {
    return id;
  }
  if (const BlockId id = small_.oldest_worth_moving(control); id != kNoBlock) {
    const BlockId newer = read_in_turn_.instead_of(id, reuse_prefetcher_.expected(id), control);
    return newer != kNoBlock ? newer : id;
  }
  const BlockId last = control.pending_uses().needed_last();
  if (last == kNoBlock) {
    return std::nullopt;
  }
  const bool worth_it = cause == Cause::kFault || control.pending_uses().next_use(last) >
                                                      control.pending_uses().next_use(incoming);
  return worth_it ? std::optional(last) : std::nullopt;
}

void Lookahead::on_issue(const Launch& launch, Control& control) {
  ahead_.issued(launch, control);
  given_up_.issued(launch);
  ahead_.advance(control);
}

void Lookahead::on_launch(const Launch& launch, Control& control) {
  ahead_.admitted(launch, control);
  given_up_.admitted(launch, control);
  ahead_.advance(control);
}

void Lookahead::on_launch_end(const Launch& launch, Control& control) {
  ahead_.ended(launch, control);
  given_up_.ended(launch, control);
  host_mapped_.ended(launch, control);
  host_mapped_.advance(control);
  ahead_.advance(control);
}

void Lookahead::on_update(UpdateStage stage, const Launch& launch, Control& control) {
  if (stage == UpdateStage::kEnded) {
    ahead_.updated(launch, control);
    ahead_.advance(control);
  }
}

std::optional<BlockId> Lookahead::select_victim(Cause cause, BlockId incoming,
                                                const Control& control) {
  if (const BlockId again = control.oldest_recomputable(); again != kNoBlock) {
    return again;
  }
  const std::optional<BlockId> victim = ahead_.victim(cause, incoming, control);
  if (victim) {
    leaves(*victim, control);
  }
  return victim;
}

std::optional<BlockId> Lookahead::select_clean_victim(Cause /*cause*/, const Control& control) {
  if (const BlockId again = control.oldest_recomputable(); again != kNoBlock) {
    return again;
  }
  const std::optional<BlockId> copied = ahead_.copied(control);
  if (copied) {
    leaves(*copied, control);
  }
  return copied;
}

void Lookahead::leaves(BlockId block, const Control& control) {
  ahead_.leaves(block, control);
  host_mapped_.leaves(block, control);
}

}  // namespace spillway
