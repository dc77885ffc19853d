// The seam to policies: the events that they hear and the requests that they may make. Layer:
// engine. A policy reads the engine's state and answers with requests. The engine refuses a request
// that breaks a capacity or a pin: a wrong request costs time, never data. Single-threaded, like
// the engine.
#pragma once

#include <optional>
#include <string_view>

#include "engine/types.h"

namespace spillway {

class PendingUses;
class PageQueues;
class Space;

// What a policy may see and wish for. Wishes take effect when the engine next forms batches.
class Control {
 public:
  Control() = default;
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  virtual ~Control() = default;

  // Make the block resident before it is touched. A block that is resident already becomes most
  // recently used, and no longer counts as discarded (UVM Discard sections 5.2 and 5.5).
  virtual void prefetch(BlockId block) = 0;
  // Copy the block down, and let its frame be reclaimed without a transfer from then on.
  virtual void pre_evict(BlockId block, Tier to) = 0;
  // Copy the block down, and let it stay as it is: until it is written again, it can leave without
  // a transfer. Where clean copies are not kept (EngineOptions::clean_copies), as pre_evict.
  virtual void copy_down(BlockId block, Tier to) = 0;
  // Give up at once what a launch can make again, as a victim is. False, and nothing happens, where
  // it cannot go or a launch that has been issued names it.
  [[nodiscard]] virtual bool give_up(AllocationId id) = 0;

  // Let launches use the block in host memory, over the link, from now on: it is brought there, and
  // never has to make way (docs/cuda.md). Only while its contents lie in host memory and not on the
  // device, and no admitted launch names it. False, and nothing happens, where it cannot be, or
  // there is no host memory for it.
  [[nodiscard]] virtual bool set_host_mapped(BlockId block) = 0;
  // A host-mapped block goes back to the host tier, and is then brought to the device like any
  // other. While an admitted launch names it, or where the tier is full, nothing happens.
  virtual void clear_host_mapped(BlockId block) = 0;

  [[nodiscard]] virtual const Space& space() const = 0;
  [[nodiscard]] virtual const PageQueues& queues() const = 0;
  // What launches that are issued and not admitted yet will use, and in which order they come.
  [[nodiscard]] virtual const PendingUses& pending_uses() const = 0;
  [[nodiscard]] virtual Bytes free_bytes(Tier tier) const = 0;
  [[nodiscard]] virtual Bytes capacity_bytes(Tier tier) const = 0;
  // EngineOptions::frames_have_sizes: what a frame costs, it costs however small it is.
  [[nodiscard]] virtual bool frames_have_sizes() const = 0;
  // Device frames that copies ahead of need, under way or waiting, will make reclaimable.
  [[nodiscard]] virtual Bytes pre_evicting_bytes(Tier to) const = 0;
  // Whether the block may be chosen as a victim now: resident, used by no launch, not moving.
  [[nodiscard]] virtual bool evictable(BlockId block) const = 0;
  // Whether a launch that needs the block now would find it: resident, with contents that are not
  // discarded, not leaving.
  [[nodiscard]] virtual bool usable(BlockId block) const = 0;
  // Whether somebody has asked for the block, or it is coming.
  [[nodiscard]] virtual bool on_its_way(BlockId block) const = 0;
  [[nodiscard]] virtual Bytes queued_prefetch_bytes() const = 0;
  // Whether the block is known to be dead after this launch: the last issued launch that names it,
  // behind which the program has freed or discarded it already.
  [[nodiscard]] virtual bool dies_after(BlockId block, LaunchId launch) const = 0;
  // A block on the device that can be given up, because a launch can make it again, with all of its
  // allocation: of the one that has been so for longest. kNoBlock if there is none.
  [[nodiscard]] virtual BlockId oldest_recomputable() const = 0;
};

// How far an update has come (Launch::runs_at).
enum class UpdateStage : std::uint8_t { kIssued, kAdmitted, kEnded };

class Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  // How far ahead of the device launches may be admitted, where the platform does not allow less;
  // asked at every admission.
  [[nodiscard]] virtual LaunchWindow window() const { return {}; }

  // The launch has been issued. It may be long before it runs: nothing is pinned, and what it uses
  // may still be changed by those before it.
  virtual void on_issue(const Launch& /*launch*/, Control& /*control*/) {}
  // It is admitted, before its blocks are looked up.
  virtual void on_launch(const Launch& /*launch*/, Control& /*control*/) {}
  // The launch needs a block that is neither resident nor on its way.
  virtual void on_fault(const Launch& /*launch*/, BlockId /*block*/, Control& /*control*/) {}
  // The platform has seen that the launch uses a block, whether that was resident or not: the
  // program allocated it there, or said so. Not every use is seen.
  virtual void on_access(const Launch& /*launch*/, BlockId /*block*/, Control& /*control*/) {}
  // After the last of the launch's blocks has been looked up, if there were faults.
  virtual void on_faults(const Launch& /*launch*/, Control& /*control*/) {}
  // After the launch has ended and its blocks may leave. Launches of several streams end in any
  // order.
  virtual void on_launch_end(const Launch& /*launch*/, Control& /*control*/) {}
  // Of an update, instead of on_issue, on_launch and on_launch_end: none of it is a use on the
  // device.
  virtual void on_update(UpdateStage /*stage*/, const Launch& /*launch*/, Control& /*control*/) {}
  virtual void on_allocate(AllocationId /*id*/, Control& /*control*/) {}
  // The program has said that the allocation's contents are dead behind all launches that are
  // issued so far, long before that takes effect.
  virtual void on_death_said(AllocationId /*id*/) {}
  // Whether it wants to know which launches are the same code (Launch::kind).
  [[nodiscard]] virtual bool wants_kinds() const { return false; }

  // Whether victims whose contents can be made again are given up rather than copied.
  [[nodiscard]] virtual bool recomputes() const { return false; }
  // A victim's allocation is about to be given up.
  virtual void on_give_up(AllocationId /*id*/) {}

  // A block to move away to make room for `incoming`. nullopt: none that this policy would give for
  // it; the incoming block then waits. For Cause::kFault the engine falls back on the least
  // recently migrated evictable block rather than wait for ever.
  virtual std::optional<BlockId> select_victim(Cause /*cause*/, BlockId /*incoming*/,
                                               const Control& control);
  // A victim that leaves without a copy, as it would soon: instead of what is dead and has another
  // size than the incoming block. What is answered leaves. nullopt: what is dead goes.
  virtual std::optional<BlockId> select_clean_victim(Cause /*cause*/, const Control& /*control*/) {
    return std::nullopt;
  }
  // A block to move from host memory to storage, so that `incoming` finds room for an update.
  // nullopt, or one that cannot: what was updated last goes first, since the next iteration needs
  // it last (near-memory section 5.3).
  virtual std::optional<BlockId> select_host_victim(BlockId /*incoming*/,
                                                    const Control& /*control*/) {
    return std::nullopt;
  }
  // Where a victim goes; the engine takes the other tier when this one is full.
  [[nodiscard]] virtual Tier eviction_tier(BlockId /*block*/, const Control& /*control*/) {
    return Tier::kHost;
  }
};

}  // namespace spillway
