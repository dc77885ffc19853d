// The migration engine: one state machine that policies steer and platforms drive.
// Layer: engine. Pure: it reads no clock, starts no thread, calls no operating system; everything
// it does is an answer to an event, and the same events give the same answers. docs/engine.md has
// the states of a block and the invariants. Not thread-safe: a platform with threads calls it under
// one lock.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/mechanism.h"
#include "engine/page_queues.h"
#include "engine/policy.h"
#include "engine/space.h"
#include "engine/stats.h"
#include "engine/types.h"

namespace spillway {

struct EngineOptions {
  Bytes device_capacity_bytes = 0;
  Bytes host_capacity_bytes = 0;
  Bytes storage_capacity_bytes = 0;
  Bytes device_frame_bytes = kPageBytes;
  // Size of one transfer batch, and how many may be on their way in one lane at once. Faults go one
  // batch at a time, as the driver's fault loop does (DeepUM figure 3).
  // Evictions go in smaller batches, so that the first frames are free soon.
  Bytes host_batch_bytes = 16 * kMiB;
  Bytes storage_batch_bytes = 8 * kMiB;
  Bytes eviction_batch_bytes = 4 * kMiB;
  std::uint32_t batches_in_flight = 2;
  // How far ahead of the fetches that wait room is made.
  Bytes room_ahead_bytes = 64 * kMiB;
  // Dead frames go to a queue of their own and are reclaimed before any used one (UVM Discard
  // section 5.5). If not, they keep their place in the used queue, and are dropped instead of moved
  // when their turn comes (DeepUM section 5.2).
  bool reclaim_discarded_first = true;
  // Keep the copy in storage of a block that comes to the device, and drop the block instead of
  // writing it again if no launch has written it. Such a copy goes when its place is needed.
  bool keep_storage_copies = false;
  // The platform stops the first write to a block that was mapped without being writable and
  // reports it as a thread's fault. Copies in host memory are then kept like those in storage.
  bool tracks_writes = false;
  // Transfers that fail in a row before the engine gives up.
  std::uint32_t failures_in_a_row_max = 16;
};

enum class LaunchState : std::uint8_t {
  kReady,     // go; launch_ready has been called
  kWaiting,   // launch_ready will be called
  kTooLarge,  // its blocks do not fit on the device together: split it; nothing has happened
};

struct LaunchAdmission {
  LaunchState state = LaunchState::kReady;
  std::uint32_t missing_blocks = 0;  // not resident now
  std::uint32_t faulted_blocks = 0;  // ... and nobody had asked for them
};

enum class DiscardMode : std::uint8_t { kEager, kLazy };

class Engine final : private Control {
 public:
  // The mechanism and the policy must outlive the engine.
  Engine(const EngineOptions& options, Mechanism& mechanism, Policy& policy);

  // --- What the program does -----------------------------------------------------------------

  // New memory; reads give zeros. Costs no frame before it is touched.
  Result<AllocationId> allocate(Bytes bytes, std::uint64_t tag);
  // The contents are dead and the numbers may be reused. No running launch may use it.
  void free(AllocationId id);
  // The contents are dead; the allocation stays. Eager: unmapped at once, so that the next use is
  // noticed. Lazy: stays mapped, and the program must prefetch before it uses it again
  // (UVM Discard sections 4.1 and 5.2). No running launch may use it. A page that small allocations
  // share is left alone.
  void discard(AllocationId id, DiscardMode mode);
  // Blocks of one allocation, of which policies are not told: they think in allocations.
  void discard_blocks(BlockId first_block, std::uint32_t block_count, DiscardMode mode);
  // The program's own hints, on blocks of one allocation.
  void prefetch_blocks(BlockId first_block, std::uint32_t block_count);
  void pre_evict_blocks(BlockId first_block, std::uint32_t block_count, Tier to);

  // The program uses memory again that it discarded, without caring for what it holds: blocks that
  // are still there become usable as they are (what UVM Discard section 4.1 asks a prefetch for),
  // the others stay away until they are touched.
  void reuse(AllocationId id);

  // A launch is issued: makes its blocks resident and keeps them so until end_launch. Sequence
  // numbers must grow. A launch that does not fit beside those that run waits for them.
  LaunchAdmission begin_launch(const Launch& launch);
  // The launch has finished; blocks that it wrote are live from now on.
  void end_launch(LaunchSeq seq);
  // Threads have stopped at these blocks; each goes on with the next Mechanism::map of its block. A
  // block named twice is one fault. They count as faults of the launch that began last. Numbers of
  // blocks that are not alive are ignored.
  void thread_faults(std::span<const ThreadFault> faults);

  // Somebody has written the block while it was on its way to the device, where its bytes had
  // appeared already: said before the transfer is reported as finished.
  void written_on_arrival(BlockId id);
  // The launch that began last is known to use these blocks, which says nothing about when.
  void note_accesses(BlockId first_block, std::uint32_t block_count);
  // The same for the statistics alone: it is taken for granted rather than known.
  void note_uses(BlockId first_block, std::uint32_t block_count);

  // Device memory that the space may use. A smaller budget is reached by eviction, step by step.
  // Fails with kInvalidInput if running launches need more.
  Status set_device_capacity(Bytes bytes);
  // Host memory or storage that the space may use from now on. What it uses already stays.
  void set_capacity_below(Tier tier, Bytes bytes);

  // --- What the platform reports --------------------------------------------------------------

  void transfer_finished(TransferId id);
  // The destination holds nothing of use; the source is as before. The engine tries again.
  void transfer_failed(TransferId id);

  // --- State ------------------------------------------------------------------------------------

  // Set once and for good when the engine cannot go on without losing data: too many failures.
  [[nodiscard]] const std::optional<Error>& fatal() const { return fatal_; }
  // With nothing in flight and no launch running: why those that wait will wait for ever (every
  // tier is full), or nullopt if none waits. Memory that is freed or a larger budget ends it.
  [[nodiscard]] std::optional<Error> stuck() const;
  [[nodiscard]] std::size_t transfers_in_flight() const { return in_flight_; }
  [[nodiscard]] const EngineStats& stats() const { return stats_; }
  [[nodiscard]] const Space& space() const override { return space_; }
  [[nodiscard]] const PageQueues& queues() const override { return queues_; }
  [[nodiscard]] Bytes used_bytes(Tier tier) const { return tiers_[index_of(tier)].used_bytes; }
  [[nodiscard]] Bytes capacity_bytes(Tier tier) const override;
  [[nodiscard]] Bytes free_bytes(Tier tier) const override;
  // Walks everything: capacities, queues, one authoritative copy a live block. The message says
  // which block and what is wrong.
  [[nodiscard]] Status check_invariants() const;

 private:
  struct TierAccount {
    Bytes capacity_bytes = 0;
    Bytes used_bytes = 0;
    Bytes limit_bytes = 0;      // capacity, or what was in use when the capacity shrank
    Bytes spare_bytes = 0;      // of what is in use: copies that go when their place is needed
    std::deque<BlockId> spare;  // oldest first; may hold stale entries: the block's own set decides
  };
  struct ActiveLaunch {
    Launch launch;
    std::uint32_t missing = 0;
    std::uint32_t faults_open = 0;  // of the missing ones, those that nobody had asked for
    bool live = false;
    bool admitted = false;
  };
  struct Waiter {
    std::uint32_t launch_slot = 0;
    std::uint32_t next = kNoIndex;
    bool faulted = false;
  };
  struct Lane {
    std::uint32_t in_flight = 0;
    std::uint32_t in_flight_max = 0;
  };
  struct Flight {
    Transfer transfer;
    Lane* lane = nullptr;
    std::uint32_t generation = 0;
    bool live = false;
  };
  // Control, for policies.
  void prefetch(BlockId id) override;
  void cancel_prefetches() override;
  void pre_evict(BlockId id, Tier to) override;
  [[nodiscard]] bool evictable(BlockId id) const override;
  [[nodiscard]] bool usable(BlockId id) const override;
  [[nodiscard]] Bytes pre_evicting_bytes(Tier to) const override {
    return pre_evicting_bytes_[index_of(to)];
  }
  [[nodiscard]] Bytes queued_prefetch_bytes() const override { return prefetch_bytes_; }

  // engine.cc: events
  [[nodiscard]] bool alive(BlockId id) const;
  void admit(std::uint32_t slot, LaunchAdmission& admission);
  void touch(std::uint32_t slot, BlockId id, const Access& access, LaunchAdmission& admission);
  void count_if_prefetched(Block& block);
  [[nodiscard]] bool thread_fault(const ThreadFault& fault);
  [[nodiscard]] static bool needed(const Block& block) { return block.pins > 0 || block.awaited; }
  // Retired, with a frame that waits for its next use.
  [[nodiscard]] static bool reserved(const Block& block) {
    return block.retired && !block.mapped && block.copies.has(Tier::kDevice);
  }
  void unmap(BlockId id);
  [[nodiscard]] bool overwrites_alone(const Block& block, const Access& access) const;
  void discard_block(BlockId id, DiscardMode mode);
  void release_if_gone(BlockId id);
  void wait_for(std::uint32_t slot, Block& block, bool faulted);
  void wake(BlockId id);
  void report_ready();
  void admit_waiting();
  struct LaunchBytes {
    Bytes all = 0;
    Bytes unpinned = 0;
  };
  [[nodiscard]] LaunchBytes bytes_of(const Launch& launch);
  template <typename Visit>
  static void for_each_block(const Launch& launch, Visit visit);

  // engine_fetch.cc: what comes to the device
  [[nodiscard]] static Source source_of(const Block& block);
  void enqueue_fetch(BlockId id, FetchState priority);
  void leave_fetch_queue(Block& block);
  void pump();
  void form_fault_fetches();
  void form_prefetches();
  bool form_fetches(FetchState priority, Source source, std::uint64_t limit);
  bool take_device_frame(BlockId id, FetchState priority);
  void arrive_zeroed(BlockId id);
  void make_usable(BlockId id, bool overwritten = false);
  void prepare(BlockId id);
  void keep_or_drop_copies_below(BlockId id);
  void fetch_finished(BlockId id);
  void fetch_failed(BlockId id);

  // engine_evict.cc: what leaves it
  bool make_room(Bytes need_bytes, Bytes ahead_bytes, Cause cause, BlockId incoming);
  void begin_eviction(BlockId victim);
  void cancel_eviction(BlockId id);
  std::optional<BlockId> choose_victim(Cause cause, BlockId incoming);
  [[nodiscard]] std::optional<BlockId> oldest_that_can_leave() const;
  [[nodiscard]] static bool leaves_at_once(const Block& block);
  [[nodiscard]] bool can_leave(BlockId id) const;
  [[nodiscard]] std::optional<Tier> room_below(BlockId id, Tier preferred) const;
  void reclaim_device_frame(BlockId id);
  void form_evictions(Cause cause, Tier to);
  bool prepare_pre_eviction(BlockId id, Tier to);
  void take_back_wish(Block& block);
  void eviction_finished(BlockId id, Tier to, Cause cause);
  void eviction_failed(BlockId id, Tier to, Cause cause);
  void eviction_ended(Block& block, Tier to, Cause cause);
  void form_moves_down();
  void move_down_finished(BlockId id);
  void move_down_failed(BlockId id);
  void shrink();

  // engine_transfer.cc: batches and frames
  [[nodiscard]] std::uint32_t next_flight_slot();
  void add_to(Transfer& transfer, std::uint32_t slot, BlockId id);
  void start(std::uint32_t slot, Transfer transfer, Lane& lane);
  void take_frame(BlockId id, Tier tier);
  void drop_frame(BlockId id, Tier tier);
  void give_up_frame(BlockId id, Tier tier);
  void drop_copies_below(BlockId id);
  void add_spare(BlockId id, Tier tier);
  void remove_spare(BlockId id, Tier tier);
  bool drop_oldest_spare(Tier tier);
  Flight take_flight(TransferId id);

  EngineOptions options_;
  Mechanism* mechanism_;
  Policy* policy_;
  Space space_;
  PageQueues queues_;
  std::array<TierAccount, kTierCount> tiers_{};
  EngineStats stats_;
  std::optional<Error> fatal_;
  std::uint32_t failures_in_a_row_ = 0;

  std::vector<ActiveLaunch> launches_;
  std::deque<std::uint32_t> waiting_for_admission_;
  std::vector<std::uint32_t> ready_slots_;
  std::uint32_t active_launches_ = 0;
  LaunchSeq last_seq_ = 0;
  Launch latest_;  // without its accesses: whom threads' faults are put down to
  Bytes pinned_bytes_ = 0;
  std::uint32_t counts_ = 0;
  std::vector<Waiter> waiters_;
  std::uint32_t free_waiter_ = kNoIndex;

  // [fault, prefetch][source]; may hold stale entries: the block's own `fetch` decides.
  struct FetchWish {
    BlockId block = kNoBlock;
    std::uint64_t order = 0;  // of wishes
  };
  std::array<std::array<std::deque<FetchWish>, kSourceCount>, 2> fetch_queues_;
  std::uint64_t fetch_order_ = 0;
  Bytes fault_bytes_ = 0;     // waiting in fault queues
  Bytes prefetch_bytes_ = 0;  // waiting in prefetch queues
  std::array<std::array<Lane, kSourceCount>, 2> fetch_lanes_{};

  std::array<std::array<std::deque<BlockId>, kTierCount>, 2> eviction_queues_;  // [room, ahead][to]
  std::array<std::array<Lane, kTierCount>, 2> eviction_lanes_{};
  Bytes evicting_bytes_ = 0;  // device frames that evictions for room will give back
  std::array<Bytes, kTierCount> pre_evicting_bytes_{};  // by destination: wished or under way
  std::deque<BlockId> move_down_queue_;                 // host to storage
  Lane move_down_lane_{};

  std::vector<Flight> flights_;  // the low half of a transfer's id is its slot here
  std::vector<std::uint32_t> free_flights_;
  std::size_t in_flight_ = 0;
};

}  // namespace spillway
