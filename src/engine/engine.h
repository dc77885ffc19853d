// The migration engine: one state machine that policies steer and platforms drive.
// Layer: engine. Pure: it reads no clock, starts no thread, calls no operating system; everything
// it does is an answer to an event, and the same events give the same answers. docs/engine.md has
// the states of a block, the life of a launch and the invariants. Its parts each keep one kind of
// record and check it; what stands here are the rules. Not thread-safe: a platform with threads
// calls it under one lock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/engine_options.h"
#include "engine/launches/launch_order.h"
#include "engine/launches/launch_table.h"
#include "engine/launches/pending_uses.h"
#include "engine/launches/pins.h"
#include "engine/launches/recomputable.h"
#include "engine/launches/updates.h"
#include "engine/launches/updates_ahead.h"
#include "engine/launches/waiters.h"
#include "engine/mechanism.h"
#include "engine/memory/deferred_frees.h"
#include "engine/memory/escaped_addresses.h"
#include "engine/memory/free_frames.h"
#include "engine/memory/page_queues.h"
#include "engine/memory/space.h"
#include "engine/memory/tier_accounts.h"
#include "engine/moves/asked_ahead.h"
#include "engine/moves/eviction_queue.h"
#include "engine/moves/fetch_queue.h"
#include "engine/moves/in_flight_transfers.h"
#include "engine/moves/mechanism_batch.h"
#include "engine/policy.h"
#include "engine/stats.h"
#include "engine/types.h"

namespace spillway {

enum class LaunchState : std::uint8_t {
  kReady,     // go; release_launch has been called
  kWaiting,   // release_launch will be called
  kTooLarge,  // its blocks do not fit on the device together: split it; nothing has happened
};

struct LaunchAdmission {
  LaunchState state = LaunchState::kReady;
  LaunchId id = kNoLaunch;           // to end it by
  std::uint32_t missing_blocks = 0;  // not resident now; 0 for a launch that is not admitted yet
  std::uint32_t faulted_blocks = 0;  // ... and nobody had asked for them
};

// Whether a launch would find room if it were issued now.
struct LaunchFit {
  LaunchState state = LaunchState::kReady;  // as issue_launch would say it of memory alone
  Bytes more_bytes = 0;                     // what it needs beside what is held
  Bytes held_bytes = 0;                     // by admitted launches, and by what is fixed
};

class Engine final : private Control {
 public:
  // The mechanism and the policy must outlive the engine.
  Engine(const EngineOptions& options, Mechanism& mechanism, Policy& policy);

  // --- What the program does -----------------------------------------------------------------

  // New memory; reads give zeros, but for the pieces of a frame that small allocations share.
  // Costs no frame before it is touched. block_bytes is the unit in which it moves: the platform's
  // choice (Space::allocate).
  Result<AllocationId> allocate(Bytes bytes, std::uint64_t tag, Bytes block_bytes = kBlockBytes);

  // The following take effect when every launch that was issued before and names the memory has
  // ended; until then it is as it was.

  // The contents are dead and the numbers may be reused. It must not be spoken of again.
  void free(AllocationId id);
  // The contents are dead; the allocation stays. Eager: unmapped at once, so that the next use is
  // noticed. Lazy: stays mapped, and the program must prefetch before it uses it again
  // (UVM Discard sections 4.1 and 5.2). A frame that small allocations share is left alone, and so
  // are blocks that a launch issued later has been admitted for. Where writes are tracked, memory
  // that launches use is left alone.
  void discard(AllocationId id, DiscardMode mode);
  // Blocks of one allocation, of which policies are not told: they think in allocations.
  void discard_blocks(BlockId first_block, std::uint32_t block_count, DiscardMode mode);
  // The program's own hints, on blocks of one allocation. They wait for nothing but discards.
  void prefetch_blocks(BlockId first_block, std::uint32_t block_count);
  void pre_evict_blocks(BlockId first_block, std::uint32_t block_count, Tier to);

  // The program uses memory again that it discarded, without caring for what it holds: blocks that
  // are still there become usable as they are (what UVM Discard section 4.1 asks a prefetch for),
  // the others stay away until they are touched.
  void reuse(AllocationId id, std::uint32_t block_count = ~std::uint32_t{0});

  // The program is about to write all of an allocation: blocks that are nowhere get frames at once,
  // as far as nothing alive has to leave for them, and are mapped to be written.
  void provide(AllocationId id);

  // The address is where launches find it: from now on those that reach what is exposed may write
  // the allocation without naming it, until its contents die. As AccessMode::kExpose says it.
  void expose(AllocationId id);

  // What the allocation holds can be made again from now on, or no more: once it has been given up
  // (Mechanism::gave_up) the platform issues a launch that overwrites all of it before any that
  // names it. It is as well, no more, when it dies. docs/cuda.md.
  void set_recomputable(AllocationId id, bool can);

  // The allocation stays on the device until its end takes effect, whoever needs room: others than
  // launches use it. An admitted launch uses all of it, and all of it has come. What is fixed is
  // none of what launches may have: fails with kInvalidInput, and nothing has happened, if one that
  // has not ended needs more than what is left, or if some of it is host-mapped.
  Status fix(AllocationId id);
  [[nodiscard]] Bytes fixed_bytes() const { return pins_.fixed_bytes(); }
  [[nodiscard]] std::size_t fixed_allocations() const { return fixed_.size(); }

  // A launch is issued: its blocks are pinned and made resident when it is admitted, and stay so
  // until end_launch. docs/engine.md says when that is. The id and number in `launch` are
  // ignored. An update (Launch::runs_at) has its blocks in host memory instead, and nowhere else.
  LaunchAdmission issue_launch(const Launch& launch);
  // The launch has finished; blocks that it wrote are live from now on. It has been released, and
  // the end of every transfer that it had to wait for has been reported before.
  // computed_ns: Launch::computed_ns.
  void end_launch(LaunchId id, TimeNs computed_ns = 0);
  // An update that has not been released, as it waits, is not to wait any longer: it needs nothing
  // from here on, and is released.
  void withdraw(LaunchId id);
  // Where updates are certain (EngineOptions::updates_are_certain), room in host memory is kept for
  // those of their blocks that lie elsewhere, from their issue to their end: so much,
  [[nodiscard]] Bytes kept_for_updates_bytes() const { return tiers_.kept_bytes(); }
  // and so much more for this one.
  [[nodiscard]] Bytes more_kept_bytes(const Launch& update) const;
  // Already now, of what is issued next, in one update or in several. There is so much free.
  void keep_room(const Launch& update);
  // So much of host memory is to be free for updates that are issued from now on: what rests there
  // begins to move to storage.
  void make_room_for_updates(Bytes bytes);
  // The blocks are copied down when the launches that have been issued so far and use them have
  // ended, as Control::copy_down does it: a hint.
  void send_to_host(const Launch& named) { ask_down(named, true, Tier::kHost); }

  // The program's own hints in the order of its launches, which may run much later; a launch names
  // the blocks. Down as send_to_host, but as Control::pre_evict does it, and not those that a
  // launch behind it uses which is issued by then.
  void pre_evict_behind(const Launch& named, std::optional<Tier> to = std::nullopt) {
    ask_down(named, false, to);
  }
  // To the device once all launches that have been issued so far are admitted, in the order of
  // these calls, and into room that nothing else needs.
  void prefetch_behind(const Launch& named);
  // What would become of such a launch.
  [[nodiscard]] LaunchFit fit(const Launch& launch) const;

  // Streams that wait for each other. What is issued to a stream after a wait is admitted when what
  // was issued before the recording of the signal has been. A signal that is never recorded holds
  // its waiters for ever.
  [[nodiscard]] SignalId create_signal() { return order_.create_signal(); }
  void record_signal(SignalId signal, StreamId stream);
  void wait_for_signal(SignalId signal, StreamId stream);

  // Threads have stopped at these blocks; each goes on with the next Mechanism::map of its block. A
  // block named twice is one fault. They count as faults of the launch `during`, whose operands
  // nobody looks at. Numbers of blocks that are not alive are ignored.
  void thread_faults(const Launch& during, std::span<const ThreadFault> faults);
  // Somebody has written the block while it was on its way to the device, where its bytes had
  // appeared already: said before the transfer is reported as finished.
  void written_on_arrival(BlockId id);
  // The launch is known to use these blocks, which says nothing about when.
  void note_accesses(const Launch& during, BlockId first_block, std::uint32_t block_count);
  // The same for the statistics alone: it is taken for granted rather than known.
  void note_uses(BlockId first_block, std::uint32_t block_count);

  // Device memory that the space may use. A smaller budget is reached by eviction, step by step.
  // Fails with kInvalidInput if a launch that has not ended needs more, beside what is fixed.
  Status set_device_capacity(Bytes bytes);
  // Host memory or storage that the space may use from now on. What it uses already stays.
  void set_capacity_below(Tier tier, Bytes bytes);

  // Host memory, beside the host tier's, that host-mapped blocks may have together (docs/cuda.md).
  // Those that are host-mapped already stay so.
  void set_host_mapped_capacity(Bytes bytes) { host_mapped_capacity_bytes_ = bytes; }

  // --- What the platform reports --------------------------------------------------------------

  void transfer_finished(TransferId id);
  // The destination holds nothing of use; the source is as before. The engine tries again.
  void transfer_failed(TransferId id);

  // --- State ------------------------------------------------------------------------------------

  // Set once and for good when the engine cannot go on without losing data: too many failures.
  [[nodiscard]] const std::optional<Error>& fatal() const { return fatal_; }
  // With nothing in flight and no launch running: why those that wait will wait for ever (every
  // tier is full), or nullopt if none waits. Memory that is freed or a larger budget ends it. A
  // launch that is released and has not ended counts as running, unless it stands behind one of its
  // stream that is not released.
  [[nodiscard]] std::optional<Error> stuck() const;
  [[nodiscard]] std::size_t transfers_in_flight() const { return in_flight_transfers_.under_way(); }
  [[nodiscard]] const EngineStats& stats() const { return stats_; }
  [[nodiscard]] const Space& space() const override { return space_; }
  [[nodiscard]] const PageQueues& queues() const override { return queues_; }
  [[nodiscard]] const PendingUses& pending_uses() const override { return pending_uses_; }
  [[nodiscard]] Bytes used_bytes(Tier tier) const { return tiers_.used_bytes(tier); }
  [[nodiscard]] Bytes capacity_bytes(Tier tier) const override {
    return tiers_.capacity_bytes(tier);
  }
  [[nodiscard]] Bytes free_bytes(Tier tier) const override { return tiers_.free_bytes(tier); }
  [[nodiscard]] Bytes host_mapped_bytes() const { return tiers_.host_mapped_bytes(); }
  // What blocks on the device should not exceed, dead ones included, unless more is alive: a frugal
  // engine's answer is what was ever alive there at once and a little more.
  [[nodiscard]] Bytes frugal_bytes() const;
  // Walks everything: capacities, queues, one authoritative copy a live block. The message says
  // which block and what is wrong.
  [[nodiscard]] Status check_invariants() const;

 private:
  // Control, for policies.
  void prefetch(BlockId id) override;
  void pre_evict(BlockId id, Tier to) override;
  void copy_down(BlockId id, Tier to) override;
  [[nodiscard]] bool give_up(AllocationId id) override;
  [[nodiscard]] bool set_host_mapped(BlockId id) override;
  void clear_host_mapped(BlockId id) override;
  [[nodiscard]] bool evictable(BlockId id) const override;
  [[nodiscard]] bool usable(BlockId id) const override;
  [[nodiscard]] bool on_its_way(BlockId id) const override;
  [[nodiscard]] Bytes pre_evicting_bytes(Tier to) const override {
    return evictions_.ahead_bytes(to);
  }
  [[nodiscard]] bool frames_have_sizes() const override { return options_.frames_have_sizes; }
  [[nodiscard]] Bytes queued_prefetch_bytes() const override { return fetches_.prefetch_bytes(); }
  [[nodiscard]] bool dies_after(BlockId id, LaunchId launch) const override;
  [[nodiscard]] BlockId oldest_recomputable() const override;

  // engine.cc: memory, budgets
  [[nodiscard]] bool alive(BlockId id) const { return space_.has_tenant(id); }
  [[nodiscard]] AllocationId owner_of(BlockId id) const;
  void say(const Remark& remark);
  void carry_out(const DeferredFrees::Due& due);
  void carry_out_due(AllocationId id);
  void free_now(AllocationId id);
  void end_fix(AllocationId id);
  [[nodiscard]] Bytes room_for_launches() const;
  [[nodiscard]] Bytes needed_bytes(const Launch& launch, Bytes enough) const;
  void reuse_now(AllocationId id, std::uint32_t block_count);
  void discard_block(BlockId id, DiscardMode mode);
  void release_if_gone(BlockId id);
  void unmap(BlockId id);
  // Retired, with a frame that waits for its next use.
  [[nodiscard]] static bool reserved(const Block& block) {
    return block.retired && !block.mapped && block.copies.has(Tier::kDevice);
  }
  [[nodiscard]] Bytes largest_launch_bytes(Bytes enough);
  void settle();
  [[nodiscard]] bool some_launch_runs() const;

  // engine_launch.cc: launches and threads
  [[nodiscard]] LaunchWindow window() const;
  void claim(std::uint32_t slot);
  [[nodiscard]] bool fits(std::uint32_t slot);
  void admit_those_that_fit();
  bool admit_next_on_device();
  void admit(std::uint32_t slot);
  void take_up(BlockId id, const Access& access, bool claimed);
  void touch(std::uint32_t slot, BlockId id, const Access& access, LaunchAdmission& admission);
  void count_if_prefetched(Block& block);
  [[nodiscard]] bool thread_fault(const Launch& during, const ThreadFault& fault);
  // On the device.
  [[nodiscard]] static bool needed(const Block& block) {
    return !block.at_host && (block.pins > 0 || block.awaited);
  }
  void end_uses(const LaunchTable::Record& record);
  void let_go_on_device(const Launch& launch);
  [[nodiscard]] bool overwrites_alone(const Block& block, const Access& access) const;
  void submitted(const Transfer& transfer);
  void recalled(BlockId id, TransferId failed);
  void wake(BlockId id, bool was_submitted);
  void release_if_ready(std::uint32_t slot);

  // engine_update.cc: what is used in host memory, by the processor
  [[nodiscard]] bool meets_update(const Launch& launch) const;
  [[nodiscard]] bool in_the_way(BlockId id, const Access& access, LaunchSeq update) const;
  [[nodiscard]] BlockId in_the_way_of(const Launch& update) const;
  void end_keeping_room(const Launch& update);
  [[nodiscard]] bool has_room_at_host(const Launch& update) const;
  bool admit_next_update();
  void admit_update(std::uint32_t slot);
  [[nodiscard]] static bool ready_at_host(const Block& block);
  void bring_to_host(BlockId id);
  void form_update_moves();
  bool make_room_at_host(BlockId incoming);
  void move_out_of_host(Bytes aim_bytes, BlockId incoming);
  void wake_update(BlockId id);
  void let_go_at_host(std::uint32_t slot);
  void leave_update(BlockId id, std::uint32_t slot);
  [[nodiscard]] Status check_updates() const;

  // engine_asked.cc: what the program asks for ahead of need
  void ask_down(const Launch& named, bool stays, std::optional<Tier> to);
  void move_down_if_final(BlockId id);
  void bring_what_was_asked_for();

  // engine_update_ahead.cc: what those will use that are not admitted yet
  void fetch_ahead_for_updates();
  [[nodiscard]] bool lies_in_storage(BlockId id) const;
  void move_updated_down(Bytes need_bytes);

  // engine_fetch.cc: what comes to the device
  void pump();
  void form_fault_fetches();
  void form_prefetches();
  bool form_fetches(FetchState priority, Source source, std::uint64_t limit);
  bool take_device_frame(BlockId id, FetchState priority);
  void arrive_zeroed(BlockId id);
  void make_usable(BlockId id, bool overwritten = false);
  void prepare(BlockId id);
  void keep_or_drop_copies_below(BlockId id);
  void fetch_finished(BlockId id, bool reached);
  void fetch_failed(BlockId id, TransferId transfer);

  // engine_evict.cc: what leaves it
  [[nodiscard]] bool ignores_wishes() const { return options_.frugal && !pressed_; }
  bool reclaim_room(Bytes need_bytes, BlockId incoming);
  [[nodiscard]] BlockId dead_for(BlockId incoming) const;
  bool make_room(Bytes need_bytes, Bytes ahead_bytes, Cause cause, BlockId incoming);
  void wish_out(BlockId id, Tier to, bool stays);
  [[nodiscard]] bool keeps_clean_copies(Tier tier) const {
    return options_.clean_copies == CleanCopies::kAll ||
           (options_.clean_copies == CleanCopies::kStorage && tier == Tier::kStorage);
  }
  [[nodiscard]] bool can_give_up(AllocationId id) const;
  void give_up_in_place(AllocationId id);
  void give_up_for_room(AllocationId id);
  [[nodiscard]] bool keeps_sizes(BlockId incoming) const;
  void take_dead_of_its_size(BlockId incoming);
  void spare_what_is_dead(Bytes need_bytes, Cause cause, BlockId incoming);
  void begin_eviction(BlockId victim);
  void cancel_eviction(BlockId id);
  std::optional<BlockId> choose_victim(Cause cause, BlockId incoming);
  [[nodiscard]] std::optional<BlockId> oldest_that_can_leave() const;
  [[nodiscard]] bool leaves_at_once(BlockId id) const;
  [[nodiscard]] bool loses_copy_at_host(BlockId id) const;
  [[nodiscard]] bool copy_below_can_stay(BlockId id) const;
  [[nodiscard]] bool leaves_without_a_copy(BlockId id) const;
  [[nodiscard]] bool can_leave(BlockId id) const;
  [[nodiscard]] std::optional<Tier> room_below(BlockId id, Tier preferred) const;
  [[nodiscard]] Bytes free_beside_updates(BlockId id, Tier tier) const;
  void reclaim_device_frame(BlockId id);
  void lose_device_frame(BlockId id);
  void keep_copies_below(BlockId id);
  void miss_frame(const Block& block);
  void form_evictions(Cause cause, Tier to);
  bool prepare_pre_eviction(BlockId id, Tier to);
  void push_unused(BlockId id);
  void eviction_finished(BlockId id, Tier to, Cause cause, bool reached);
  void eviction_failed(BlockId id, Tier to, Cause cause);
  void eviction_ended(Block& block, Tier to, Cause cause);
  [[nodiscard]] bool rests_at_host(BlockId id) const;
  [[nodiscard]] bool can_move_down(BlockId id) const;
  void form_moves_down();
  void move_below_ended(BlockId id, Tier from, Tier to, bool finished);
  void shrink();

  // engine_host_mapped.cc: what is used where it lies in host memory
  bool end_host_mapped(BlockId id);
  [[nodiscard]] static bool leavable(const Block& block) {
    return block.queue == PageQueue::kUsed && block.pins == 0 && block.transfer == kNoIndex &&
           !block.evicting;
  }

  // engine_transfer.cc: batches and frames
  void start(Transfer transfer, Lane& lane);
  void take_frame(BlockId id, Tier tier);
  void drop_frame(BlockId id, Tier tier);
  [[nodiscard]] bool frame_has_size(BlockId id, Tier tier) const;
  void forget_free_frames();
  void drop_copies_below(BlockId id);
  void drop_spare_copies(BlockId id);
  void expose_block(BlockId id);
  void may_be_written(BlockId id);
  void reach();

  EngineOptions options_;
  Policy* policy_;
  Space space_;
  LaunchTable launches_;
  PendingUses pending_uses_;
  PageQueues queues_;
  TierAccounts tiers_;
  FreeFrames free_frames_;  // of the device, where frames have sizes
  Pins pins_;
  Updates updates_;
  UpdatesAhead updates_ahead_;
  Waiters waiters_;
  LaunchOrder order_;
  DeferredFrees deferred_;
  AskedAhead asked_;
  FetchQueue fetches_;
  EvictionQueue evictions_;
  InFlightTransfers in_flight_transfers_;
  Recomputable recomputable_;
  EscapedAddresses exposed_;
  std::unordered_set<AllocationId> fixed_;
  MechanismBatch batch_;
  EngineStats stats_;
  std::optional<Error> fatal_;
  std::uint32_t failures_in_a_row_ = 0;
  std::uint32_t admitted_ = 0;  // launches that have not ended
  LaunchSeq last_issued_ = 0;
  Bytes host_mapped_capacity_bytes_ = 0;
  Bytes most_alive_bytes_ = 0;  // on the device, with what asked for room there
  // Of a frugal engine: what dead memory may keep, and what it has lost and not come back for.
  static constexpr Bytes kLeastSlackBytes = 2 * kMiB;
  Bytes slack_bytes_ = kLeastSlackBytes;
  Bytes taken_from_dead_bytes_ = 0;
  bool pressed_ = false;  // something alive has had to leave

  std::array<std::array<Lane, kSourceCount>, 2> fetch_lanes_{};   // [fault, prefetch][source]
  std::array<std::array<Lane, kTierCount>, 2> eviction_lanes_{};  // [room, ahead][to]
  Lane move_down_lane_{};
  Lane update_lane_{};  // from storage to host memory

  // What one event leaves to be said at its end, and to be done while it lasts.
  std::vector<std::uint64_t> served_;                      // tags
  std::vector<std::uint32_t> ready_;                       // slots
  std::vector<std::pair<BlockId, std::uint32_t>> gone_;    // runs of numbers to be given back
  std::vector<std::pair<BlockId, const Access*>> absent_;  // when a launch is admitted
  std::vector<AllocationId> due_;
  LaunchAdmission* admission_ = nullptr;  // of the launch that is being issued
};

}  // namespace spillway
