// What issued launches need is fetched in their order, and what they need last is evicted first;
// learners on top of that look further ahead than the queue does. Layer: policy. docs/policies.md.
// A device that runs behind its program shows its policy the next launches with all their operands
// before they run. No paper that we know of uses that; Belady's rule (give up what is needed last)
// needs nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/policy.h"
#include "policy/habits/early_writeback.h"
#include "policy/habits/given_up.h"
#include "policy/habits/host_mapped_blocks.h"
#include "policy/habits/idle_evictor.h"
#include "policy/habits/read_in_turn.h"
#include "policy/habits/reuse_prefetcher.h"
#include "policy/habits/small_blocks.h"
#include "policy/prediction/queue_window.h"

namespace spillway {

// Walks along the issued launches, and wishes for what they lack.
class AheadOfLaunches {
 public:
  enum class What : std::uint8_t {
    kContents,  // that must be copied from below: worth asking for early
    kFrames,    // for memory that holds nothing: there at once, and in the way until it is used
  };
  // Memory that holds nothing is made ready for so many launches.
  static constexpr LaunchSeq kFramesAhead = 4;
  AheadOfLaunches(What what, Bytes waiting_bytes) : what_(what), waiting_bytes_(waiting_bytes) {}

  // Up to this launch, or until more bytes wait to be fetched than it was told.
  void advance(LaunchSeq until, Control& control);
  // The block is about to leave: if its next launch has been looked at, it must be again.
  void leaves(BlockId block, const Control& control);
  // An update has changed its blocks at the host: likewise.
  void updated(const Launch& update, const Control& control);

 private:
  What what_;
  Bytes waiting_bytes_;
  LaunchId again_ = kNoLaunch;  // to be looked at once more
  LaunchId last_ = kNoLaunch;   // that was looked at
  LaunchSeq seen_ = 0;          // its number: those up to it have been looked at
};

// Contents for everything that fits on the device together, frames for what comes next.
class AheadOfDevice {
 public:
  // Every launch is told of when it is issued, when it is admitted and when it has ended.
  void issued(const Launch& launch, const Control& control);
  void admitted(const Launch& launch, const Control& control) { window_.admitted(launch, control); }
  void ended(const Launch& launch, Control& control);
  // Wishes for what is lacking, and for copies of what will leave.
  void advance(Control& control);
  // The block is about to leave.
  void leaves(BlockId block, const Control& control);
  void updated(const Launch& update, const Control& control) { contents_.updated(update, control); }
  // The program has said that it is dead behind all launches that are issued so far.
  void dies(AllocationId id);
  // What has been copied down already; else an old block that no issued launch names
  // (small_blocks.h), or one that is read in turn instead; else the one that is needed last, if
  // `incoming` is needed before it or a launch waits for it.
  [[nodiscard]] std::optional<BlockId> victim(Cause cause, BlockId incoming,
                                              const Control& control);
  // What has been copied down already, of which the one that is expected to be used last.
  [[nodiscard]] std::optional<BlockId> copied(const Control& control) {
    return early_writeback_.copied(control, reuse_prefetcher_);
  }

 private:
  QueueWindow window_;
  EarlyWriteback early_writeback_;
  SmallBlocks small_;
  ReusePrefetcher reuse_prefetcher_;
  ReadInTurn read_in_turn_;
  IdleEvictor idle_evictor_;
  bool pressed_ = false;  // something has had to leave
  AheadOfLaunches contents_{AheadOfLaunches::What::kContents, 256 * kMiB};
  AheadOfLaunches frames_{AheadOfLaunches::What::kFrames, 512 * kMiB};
};

class Lookahead final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "lookahead"; }
  [[nodiscard]] LaunchWindow window() const override { return {.launches_per_stream = 4}; }
  [[nodiscard]] bool wants_kinds() const override { return true; }
  [[nodiscard]] bool recomputes() const override { return true; }
  void on_issue(const Launch& launch, Control& control) override;
  void on_launch(const Launch& launch, Control& control) override;
  void on_launch_end(const Launch& launch, Control& control) override;
  void on_update(UpdateStage stage, const Launch& launch, Control& control) override;
  void on_death_said(AllocationId id) override {
    ahead_.dies(id);
    given_up_.dies(id);
    host_mapped_.dies(id);
  }
  void on_give_up(AllocationId id) override { given_up_.leaves(id); }
  // First what can be made again, which needs no way out and no way in; then as AheadOfDevice says.
  std::optional<BlockId> select_victim(Cause cause, BlockId incoming,
                                       const Control& control) override;
  // Only those of the first two that leave without a copy.
  std::optional<BlockId> select_clean_victim(Cause cause, const Control& control) override;

 private:
  void leaves(BlockId block, const Control& control);

  AheadOfDevice ahead_;
  GivenUp given_up_;
  HostMappedBlocks host_mapped_;
};

}  // namespace spillway
