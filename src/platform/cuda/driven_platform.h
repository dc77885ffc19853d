// The CUDA platform: one lock, the engine, and the parts that carry out what the engine commands.
// Layer: platform, cuda. docs/cuda.md. Commands go to the driver thread (command_queue.h); launches
// are device_launches.h's, the program's memory is program_memory.h's.
//
// Locks, in this order: StreamOrder's `legacy` or a stream's `issuing`, a stream's `markers`, the
// platform's. Under the platform's lock nobody waits and nobody calls the driver, except for
// cuCtxGetCurrent, which only reads the calling thread's state.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "platform/common/failures.h"
#include "platform/common/launch_log.h"
#include "platform/common/process/clock.h"
#include "platform/common/process/eager_mutex.h"
#include "platform/common/stall_clock.h"
#include "platform/cuda/bypass/bypass_mode.h"
#include "platform/cuda/cuda_platform.h"
#include "platform/cuda/memory/block_backing.h"
#include "platform/cuda/memory/exports.h"
#include "platform/cuda/memory/extra_memory.h"
#include "platform/cuda/memory/freed_runs.h"
#include "platform/cuda/memory/host_budget.h"
#include "platform/cuda/memory/host_memory.h"
#include "platform/cuda/memory/host_ranges.h"
#include "platform/cuda/memory/program_memory.h"
#include "platform/cuda/recompute/recomputing.h"
#include "platform/cuda/stream/device_launches.h"
#include "platform/cuda/stream/device_updates.h"
#include "platform/cuda/stream/standstill.h"
#include "platform/cuda/stream/stream_order.h"
#include "platform/cuda/stream/stream_waits.h"
#include "platform/cuda/transfer/command_queue.h"
#include "policy/admission_governor.h"

namespace spillway::cuda {

class DrivenPlatform final : public CudaPlatform, private Mechanism, private CommandListener {
 public:
  DrivenPlatform(const Driver& driver, const CudaOptions& options, std::optional<SwapFile> storage,
                 Policy& policy);
  // The program's launches have ended, or will by themselves.
  ~DrivenPlatform() override;
  // Once, before anything else.
  Status start();

  Result<std::uint64_t> allocate(Bytes bytes) override;
  void free(std::uint64_t address) override;
  bool undo_allocate(std::uint64_t address) override;
  void retire(std::uint64_t address, std::optional<CuStream> next_on) override;
  Status reuse(std::uint64_t address) override;
  void retire_keeping_room(std::uint64_t address, std::optional<CuStream> next_on) override;
  void divide(std::uint64_t address) override;
  [[nodiscard]] bool calls_are_open() const override { return bypass_.calls().is_open(); }
  [[nodiscard]] bool recycles_unannounced(Bytes bytes) const override;
  void keep_at_most(Bytes bytes) override;
  [[nodiscard]] std::optional<Range> allocation_of(std::uint64_t address) const override {
    return memory_->allocation_of(address);
  }
  [[nodiscard]] bool may_be_again(std::uint64_t address) const override {
    return memory_->may_be_again(address);
  }
  void pointed_at(std::span<const std::uint64_t> words, Pointed* found) const override {
    memory_->pointed_at(words, found);
  }
  [[nodiscard]] bool contains(std::uint64_t address) const override {
    return memory_->contains(address);
  }
  [[nodiscard]] Range addresses() const override { return memory_->addresses(); }

  [[nodiscard]] std::optional<std::uint64_t> reserve(Bytes bytes, Bytes alignment) override;
  void give_back_reserved(std::uint64_t start) override;
  Status promise(Bytes bytes) override;
  void take_back_promise(Bytes bytes) override;
  Status allocate_at(std::uint64_t address, Bytes bytes) override;
  void wait_until_free(std::uint64_t address, Bytes bytes) override;
  void hide(std::uint64_t address) override;
  void show(std::uint64_t address) override;
  Result<std::uint64_t> move(std::uint64_t address, std::optional<std::uint64_t> to) override;
  [[nodiscard]] bool has_reserved() const override { return memory_->has_reserved(); }
  [[nodiscard]] std::vector<Range> allocations_in(std::uint64_t address,
                                                  Bytes bytes) const override {
    return memory_->allocations_in(address, bytes);
  }
  [[nodiscard]] std::vector<Range> allocations_beside(std::uint64_t address,
                                                      const Range& among) const override {
    return memory_->allocations_beside(address, among);
  }

  void expose(std::span<const std::uint64_t> addresses) override;
  [[nodiscard]] bool has_exposed() const override {
    return has_exposed_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool begin_bypassed(CuStream stream) override;
  void end_bypassed() override;
  [[nodiscard]] std::uint64_t bypassed_calls() const override { return bypass_.calls().calls(); }
  [[nodiscard]] bool stores_launches() const override {
    return stores_launches_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] CuAddress make_extra_memory(Bytes bytes) override { return extra_.make(bytes); }
  std::uint64_t before_launch(const CudaLaunch& launch) override;
  void not_kept(std::uint64_t launch) override;
  [[nodiscard]] bool is_held(std::uint64_t launch) const override;
  void let_others_issue(std::uint64_t launch) override;
  void after_launch(std::uint64_t launch, bool made) override;
  void before_wait(std::optional<CuStream> stream) override;
  void after_wait(std::optional<CuStream> stream) override;
  std::unique_lock<Mutex> in_order(CuStream stream) override;
  void recorded(CuEvent event, CuStream stream) override;
  void not_recorded(CuEvent event) override;
  void waits_for(CuEvent event, CuStream stream) override;
  void wrote_value(CuAddress word, CuStream stream) override;
  void will_wait_for_value() override;
  void waits_for_value(CuAddress word, CuStream stream) override;
  void watch_captures(const std::atomic<int>& under_way) override;
  void capture_begins() override;
  void code_ends() override;
  void context_ended(CuContext context) override;
  [[nodiscard]] bool is_busy(CuContext context) const override;
  void destroyed(CuStream stream) override;
  void share_with(CuDevice device) override;
  [[nodiscard]] bool exports_memory() const override { return queue_->exportable(); }
  [[nodiscard]] std::optional<std::uint64_t> exported(std::uint64_t address) const override;
  Status may_export(std::uint64_t address) override;
  Result<std::uint64_t> export_memory(std::uint64_t address) override;
  Result<ExportedPiece> exported_piece(std::uint64_t number, std::uint32_t piece) override;

  [[nodiscard]] bool takes_updates() override;
  [[nodiscard]] std::vector<UpdateId> begin_updates(
      std::span<const std::vector<ProgramOperand>> parts, CuStream stream) override;
  [[nodiscard]] std::optional<UpdateId> next_update() override;
  [[nodiscard]] std::vector<Extents> update_extents(UpdateId update) const override;
  void end_update(UpdateId update) override;
  void send_to_host(std::uint64_t address, Bytes bytes) override;
  bool prefetch(std::uint64_t address, Bytes bytes) override;
  bool pre_evict(std::uint64_t address, Bytes bytes) override;

  Status set_device_capacity(Bytes bytes) override;
  [[nodiscard]] ProgramStats stats() const override;
  [[nodiscard]] std::vector<LaunchWaits> waits() const override;
  [[nodiscard]] std::vector<Work> work() const override;
  void log_events(EventLog* events) override;
  [[nodiscard]] Bytes capacity_bytes(Tier tier) const override;
  void wait_until_idle() override;
  [[nodiscard]] Status check_invariants() const override;

 private:
  using Lock = MutexLock<EagerMutex>;
  // In what follows "lets go" says that a function lets the lock go for a while.

  // driven_mechanism.cc
  void start_transfer(const Transfer& transfer) override SPILLWAY_REQUIRES(mutex_);
  void zero(std::span<const BlockId> blocks) override SPILLWAY_REQUIRES(mutex_);
  // driven_updates.cc
  void zero_at_host(std::span<const BlockId> blocks) override SPILLWAY_REQUIRES(mutex_);
  void map(std::span<const BlockId> blocks, bool writable) override SPILLWAY_REQUIRES(mutex_);
  void unmap(std::span<const BlockId> blocks) override SPILLWAY_REQUIRES(mutex_);
  void drop(std::span<const BlockId> blocks, Tier tier) override SPILLWAY_REQUIRES(mutex_);
  void freed(AllocationId id) override SPILLWAY_REQUIRES(mutex_);
  void gave_up(AllocationId id) override SPILLWAY_REQUIRES(mutex_) { recomputing_.gave_up(id); }
  [[nodiscard]] BlockId holds_frame_of(BlockId block) const override SPILLWAY_REQUIRES(mutex_);
  void faults_served(std::uint64_t launch) override SPILLWAY_REQUIRES(mutex_);
  void release_launch(std::uint64_t launch, std::span<const TransferId> transfers) override
      SPILLWAY_REQUIRES(mutex_);
  void backed(BlockId block) SPILLWAY_REQUIRES(mutex_);
  void forget_run(const ProgramMemory::Freed& run);
  // The driver thread's, and without the lock
  Status begin(CuContext context) override;
  bool look(const Done& done) override;
  void no_memory(Bytes handle_bytes) override;
  [[nodiscard]] Error out_of_memory(Bytes handle_bytes) override;
  void broken(const std::optional<Error>& unreported) override;  // driven_markers.cc
  void end() override;
  void moved(const MoveEnded& ended) SPILLWAY_REQUIRES(mutex_);
  void check_progress() SPILLWAY_REQUIRES(mutex_);
  void newest_stays() SPILLWAY_REQUIRES(mutex_);

  // driven_host_memory.cc
  void want_host() SPILLWAY_REQUIRES(mutex_);
  void want_pinned(Bytes bytes) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Bytes most_host_mapped_bytes() const SPILLWAY_REQUIRES(mutex_);
  void no_host_mapped_memory() SPILLWAY_REQUIRES(mutex_);
  void look_for_host_mapped_memory() SPILLWAY_REQUIRES(mutex_);  // lets go
  [[nodiscard]] Bytes spare_bytes(Bytes pinned_bytes) const;     // without the lock
  void look_for_room(Bytes bytes) SPILLWAY_REQUIRES(mutex_);     // lets go
  [[nodiscard]] Bytes most_promised_bytes(Bytes host_bytes) const SPILLWAY_REQUIRES(mutex_);
  void note_room(const MemoryRoom& room) SPILLWAY_REQUIRES(mutex_);
  void host_is_short(bool is_short);
  [[nodiscard]] Error out_of_host_memory() const SPILLWAY_REQUIRES(mutex_);
  void host_grown(std::uint64_t at, Bytes bytes);
  void host_ended(const Error& error);
  void set_limits() SPILLWAY_REQUIRES(mutex_);

  // driven_bypass.cc
  [[nodiscard]] static bool may_bypass_on(CuStream stream);
  void take_mark() SPILLWAY_REQUIRES(mutex_);               // lets go
  void order_what_nobody_uses() SPILLWAY_REQUIRES(mutex_);  // lets go
  void consider_bypass() SPILLWAY_REQUIRES(mutex_);

  // driven_recomputing.cc
  [[nodiscard]] bool recomputes() const SPILLWAY_REQUIRES(mutex_);
  void born(AllocationId id) SPILLWAY_REQUIRES(mutex_);
  void retire(std::uint64_t address, std::optional<CuStream> next_on, bool keeps_room);
  void before_death(std::uint64_t address, bool handed_on, std::optional<CuStream> next_on)
      SPILLWAY_REQUIRES(mutex_);                                              // lets go
  void remake_all(std::optional<StreamId> stream) SPILLWAY_REQUIRES(mutex_);  // lets go
  void keep(const CudaLaunch& launch, std::span<const Access> accesses, StreamId stream)
      SPILLWAY_REQUIRES(mutex_);
  template <typename Next>
  void carry_out_all(const Next& next) SPILLWAY_REQUIRES(mutex_);  // lets go
  // A step on its way to a stream.
  struct Putting {
    Recomputing::Step step;
    Recomputing::Maker maker;
    CuStream stream = nullptr;
    std::array<std::uint64_t*, Recomputing::kFingerprints> fingerprints{};  // where they go
    bool overwritten = false;  // what was there is nowhere if it fails
    std::uint64_t number = 0;  // of its last launch
  };
  template <typename Call>
  CuResult put(Putting& putting, std::span<const CudaOperand> operands, std::string_view name,
               LaunchHash hash, const Call& call);
  CuResult put_fill(Putting& putting, std::uint32_t pattern);
  CuResult put_fingerprint(Putting& putting, Recomputing::Fingerprint which);
  CuResult put_maker(Putting& putting);
  CuResult put_trial(Putting& putting);
  CuResult put(Putting& putting);
  // Lets go.
  void carry_out(const Recomputing::Step& step, TimeNs& sign_ns) SPILLWAY_REQUIRES(mutex_);
  void step_failed(const Putting& putting, CuContext context, CuResult result)
      SPILLWAY_REQUIRES(mutex_);

  // driven_asked.cc
  [[nodiscard]] Launch mostly_meant(const Launch& named) const SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] std::optional<Launch> asked_for(std::uint64_t address, Bytes bytes) const
      SPILLWAY_REQUIRES(mutex_);

  // driven_updates.cc
  [[nodiscard]] bool has_updates() const SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] bool may_be_at_host(const Launch& update) const SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] std::optional<std::vector<Launch>> launches_of(
      std::span<const std::vector<ProgramOperand>> parts, Launch& whole) const
      SPILLWAY_REQUIRES(mutex_);
  static void add_to(Launch& whole, const Access& access);
  [[nodiscard]] std::optional<Recomputing::Step> step_before_update(const Launch& whole,
                                                                    StreamId stream)
      SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] std::optional<Bytes> place_at_host(const Launch& whole) SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] bool keep_room_at_host(const Launch& whole) SPILLWAY_REQUIRES(mutex_);
  void let_updates_end(Bytes bytes) SPILLWAY_REQUIRES(mutex_);  // lets go
  [[nodiscard]] bool update_may_wait_for(StreamId stream, std::uint64_t number) const
      SPILLWAY_REQUIRES(mutex_);

  // driven_reserved.cc
  [[nodiscard]] bool is_at_rest(AllocationId id) const SPILLWAY_REQUIRES(mutex_);
  void keep_handles();  // driven_platform.cc

  // driven_export.cc
  [[nodiscard]] Bytes unfixed_bytes_of(AllocationId id) const SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] Status room_to_export(AllocationId id) const SPILLWAY_REQUIRES(mutex_);
  void end_export(AllocationId id) SPILLWAY_REQUIRES(mutex_);  // lets go

  // driven_launches.cc
  std::uint64_t issue(const CudaLaunch& launch, AllocationId step_of);
  [[nodiscard]] std::uint64_t number_of(std::uint64_t launch) const;
  void use_in_bypass(const Launch& launch) SPILLWAY_REQUIRES(mutex_);
  void expose(AllocationId id) SPILLWAY_REQUIRES(mutex_);

  // driven_waits.cc
  void make_up_room(const Launch& launch, std::string_view name) SPILLWAY_REQUIRES(mutex_);
  void follow_budget() SPILLWAY_REQUIRES(mutex_);
  void hold_back() SPILLWAY_REQUIRES(mutex_);                       // lets go
  void let_room_come(std::uint32_t tag) SPILLWAY_REQUIRES(mutex_);  // lets go
  [[nodiscard]] bool lacks_room(std::span<const Access> accesses) const SPILLWAY_REQUIRES(mutex_);
  void let_ends_come(StreamId id) SPILLWAY_REQUIRES(mutex_);  // lets go
  // For what becomes true as launches end, which completion markers tell.
  void wait_until(const std::function<bool()>& done) SPILLWAY_REQUIRES(mutex_);  // lets go
  void wait_for_release(std::uint32_t tag) SPILLWAY_REQUIRES(mutex_);            // lets go
  // For a thread that waits: a moment, after which it asks whether the device still runs, where
  // nothing has ended for long since `sign_ns`, when it began to wait or asked last.
  void wait_a_little(TimeNs& sign_ns) SPILLWAY_REQUIRES(mutex_);  // lets go
  [[nodiscard]] SharedWait::Launch for_shared_wait(std::uint32_t tag) const
      SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] bool shares_wait(std::uint32_t tag, const SharedWait::Launch& launch) const
      SPILLWAY_REQUIRES(mutex_);
  // Lets go.
  void put_wait(std::uint32_t tag, const SharedWait::Launch& issued) SPILLWAY_REQUIRES(mutex_);
  // The driver thread's.
  void let_those_together_go() SPILLWAY_REQUIRES(mutex_);
  void let_go(std::uint32_t tag) SPILLWAY_REQUIRES(mutex_);

  // driven_standstill.cc; the driver thread's
  void look_for_ends() SPILLWAY_REQUIRES(mutex_);
  void let_next_go() SPILLWAY_REQUIRES(mutex_);

  // driven_markers.cc
  void put_markers() SPILLWAY_REQUIRES(mutex_);                   // lets go
  void put_marker(StreamId id) SPILLWAY_REQUIRES(mutex_);         // lets go
  void ask_whether_alive() SPILLWAY_REQUIRES(mutex_);             // lets go
  void ask_whether_alive(StreamId id) SPILLWAY_REQUIRES(mutex_);  // lets go
  void stream_failed(StreamId id, CuContext context, std::string_view symbol, CuResult result)
      SPILLWAY_REQUIRES(mutex_);
  void take_ends() SPILLWAY_REQUIRES(mutex_);

  // driven_streams.cc
  [[nodiscard]] std::optional<StreamId> known_stream(CuStream stream) const
      SPILLWAY_REQUIRES(mutex_);
  [[nodiscard]] bool comes_behind_others(CuStream stream) const
      SPILLWAY_REQUIRES(mutex_);                                                // lets go
  [[nodiscard]] StreamId stream_of(CuStream stream) SPILLWAY_REQUIRES(mutex_);  // lets go

  // driven_program_thread.h
  // While it lives a thread of the program waits.
  class Held;
  // Runs `call` with that context current.
  template <typename Call>
  CuResult in_context(CuContext context, const Call& call) const;

  [[nodiscard]] Bytes bytes_of(BlockId id) const SPILLWAY_REQUIRES(mutex_) {
    return engine_.space().block(id).bytes;
  }

  Driver driver_;
  CudaOptions options_;
  Failures failures_;
  std::optional<StorageIo> storage_;

  mutable EagerMutex mutex_;
  AdmissionGovernor governor_ SPILLWAY_GUARDED_BY(mutex_);
  Engine engine_ SPILLWAY_GUARDED_BY(mutex_);
  StreamWaits stream_waits_;
  LaunchLog log_ SPILLWAY_GUARDED_BY(mutex_);
  StallClock stalls_;
  DeviceLaunches launches_ SPILLWAY_GUARDED_BY(mutex_);
  StreamOrder order_ SPILLWAY_GUARDED_BY(mutex_);
  Standstill standstill_ SPILLWAY_GUARDED_BY(mutex_);
  BlockBacking backing_ SPILLWAY_GUARDED_BY(mutex_);
  BypassMode bypass_;
  Recomputing recomputing_ SPILLWAY_GUARDED_BY(mutex_);
  std::uint64_t* fingerprints_ SPILLWAY_GUARDED_BY(mutex_) = nullptr;  // pinned, recomputing_'s
  std::atomic<bool> stores_launches_{false};
  std::atomic<bool> has_exposed_{false};
  std::unique_ptr<ProgramMemory> memory_;
  const std::atomic<int>* captures_ SPILLWAY_GUARDED_BY(mutex_) = nullptr;  // under way
  Exports exports_ SPILLWAY_GUARDED_BY(mutex_);
  HostRanges host_ranges_ SPILLWAY_GUARDED_BY(mutex_);
  HostRanges storage_ranges_ SPILLWAY_GUARDED_BY(mutex_);
  // Numbers by stream, when one began last.
  std::vector<std::uint64_t> issued_before_updates_ SPILLWAY_GUARDED_BY(mutex_);
  bool waits_for_values_ SPILLWAY_GUARDED_BY(mutex_) = false;  // the program has, on a stream
  HostBudget host_budget_ SPILLWAY_GUARDED_BY(mutex_);
  FreedRuns freed_runs_ SPILLWAY_GUARDED_BY(mutex_);
  // The engine's is larger while a launch runs that needs more. Written under the lock.
  std::atomic<Bytes> budget_bytes_{0};
  std::atomic<Bytes> heap_keeps_bytes_{~Bytes{0}};  // as keep_at_most was told last
  std::atomic<Bytes> live_bytes_{0};  // when something was born last. Written under the lock
  bool said_too_large_ SPILLWAY_GUARDED_BY(mutex_) = false;
  // With other devices, that have been ordered.
  std::uint64_t shares_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::uint64_t shares_done_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // and carried out
  // Threads of the program that wait in our code.
  std::uint32_t held_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::condition_variable changed_;
  bool said_no_memory_ SPILLWAY_GUARDED_BY(mutex_) = false;
  bool broken_ SPILLWAY_GUARDED_BY(mutex_) = false;  // a fatal error has been told
  TimeNs stuck_since_ns_ SPILLWAY_GUARDED_BY(mutex_) = 0;

  CuAddress reservation_ = 0;
  ExtraMemory extra_;
  DeviceUpdates updates_ SPILLWAY_GUARDED_BY(mutex_);
  std::unique_ptr<HostMemory> host_;
  std::unique_ptr<CommandQueue> queue_;
};

}  // namespace spillway::cuda
