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
#include "platform/common/process/eager_lock.h"
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
  std::unique_lock<std::mutex> in_order(CuStream stream) override;
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
  using Lock = EagerLock;

  // driven_mechanism.cc; with the lock held
  void start_transfer(const Transfer& transfer) override;
  void zero(std::span<const BlockId> blocks) override;
  void zero_at_host(std::span<const BlockId> blocks) override;  // driven_updates.cc
  void map(std::span<const BlockId> blocks, bool writable) override;
  void unmap(std::span<const BlockId> blocks) override;
  void drop(std::span<const BlockId> blocks, Tier tier) override;
  void freed(AllocationId id) override;
  void gave_up(AllocationId id) override { recomputing_.gave_up(id); }
  [[nodiscard]] BlockId holds_frame_of(BlockId block) const override;
  void faults_served(std::uint64_t launch) override;
  void release_launch(std::uint64_t launch, std::span<const TransferId> transfers) override;
  void backed(BlockId block);
  void forget_run(const ProgramMemory::Freed& run);
  // The driver thread's, and without the lock
  Status begin(CuContext context) override;
  bool look(const Done& done) override;
  void no_memory(Bytes handle_bytes) override;
  [[nodiscard]] Error out_of_memory(Bytes handle_bytes) override;
  void broken(const std::optional<Error>& unreported) override;  // driven_markers.cc
  void end() override;
  void moved(const MoveEnded& ended);
  void check_progress();
  void newest_stays();

  // driven_host_memory.cc
  void want_host();
  void want_pinned(Bytes bytes);
  [[nodiscard]] Bytes most_host_mapped_bytes() const;
  void no_host_mapped_memory();
  void look_for_host_mapped_memory(Lock& lock);
  [[nodiscard]] Bytes spare_bytes(Bytes pinned_bytes) const;  // without the lock
  void look_for_room(Bytes bytes, Lock& lock);
  [[nodiscard]] Bytes most_promised_bytes(Bytes host_bytes) const;
  void note_room(const MemoryRoom& room);
  void host_is_short(bool is_short);
  [[nodiscard]] Error out_of_host_memory() const;
  void host_grown(std::uint64_t at, Bytes bytes);
  void host_ended(const Error& error);
  void set_limits();

  // driven_bypass.cc
  [[nodiscard]] static bool may_bypass_on(CuStream stream);
  void take_mark(Lock& lock);
  void order_what_nobody_uses(Lock& lock);
  void consider_bypass();

  // driven_recomputing.cc
  [[nodiscard]] bool recomputes() const;
  void born(AllocationId id);
  void retire(std::uint64_t address, std::optional<CuStream> next_on, bool keeps_room);
  void before_death(std::uint64_t address, bool handed_on, std::optional<CuStream> next_on,
                    Lock& lock);
  void remake_all(std::optional<StreamId> stream, Lock& lock);
  void keep(const CudaLaunch& launch, std::span<const Access> accesses, StreamId stream);
  template <typename Next>
  void carry_out_all(Lock& lock, const Next& next);
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
  void carry_out(const Recomputing::Step& step, Lock& lock, TimeNs& sign_ns);
  void step_failed(const Putting& putting, CuContext context, CuResult result);

  // driven_asked.cc
  [[nodiscard]] Launch mostly_meant(const Launch& named) const;
  [[nodiscard]] std::optional<Launch> asked_for(std::uint64_t address, Bytes bytes) const;

  // driven_updates.cc
  [[nodiscard]] bool has_updates() const;
  [[nodiscard]] bool may_be_at_host(const Launch& update) const;
  [[nodiscard]] std::optional<std::vector<Launch>> launches_of(
      std::span<const std::vector<ProgramOperand>> parts, Launch& whole) const;
  static void add_to(Launch& whole, const Access& access);
  [[nodiscard]] std::optional<Recomputing::Step> step_before_update(const Launch& whole,
                                                                    StreamId stream);
  [[nodiscard]] std::optional<Bytes> place_at_host(const Launch& whole);
  [[nodiscard]] bool keep_room_at_host(const Launch& whole);
  void let_updates_end(Bytes bytes, Lock& lock);
  [[nodiscard]] bool update_may_wait_for(StreamId stream, std::uint64_t number) const;

  // driven_reserved.cc
  [[nodiscard]] bool is_at_rest(AllocationId id) const;
  void keep_handles();  // driven_platform.cc

  // driven_export.cc
  [[nodiscard]] Bytes unfixed_bytes_of(AllocationId id) const;
  [[nodiscard]] Status room_to_export(AllocationId id) const;
  void end_export(AllocationId id, Lock& lock);

  // driven_launches.cc
  std::uint64_t issue(const CudaLaunch& launch, AllocationId step_of);
  [[nodiscard]] std::uint64_t number_of(std::uint64_t launch) const;
  void use_in_bypass(const Launch& launch);
  void expose(AllocationId id);

  // driven_waits.cc
  void make_up_room(const Launch& launch, std::string_view name);
  void follow_budget();
  void hold_back(Lock& lock);
  void let_room_come(std::uint32_t tag, Lock& lock);
  [[nodiscard]] bool lacks_room(std::span<const Access> accesses) const;
  void let_ends_come(StreamId id, Lock& lock);
  // For what becomes true as launches end, which completion markers tell.
  void wait_until(Lock& lock, const std::function<bool()>& done);
  void wait_for_release(std::uint32_t tag, Lock& lock);
  // For a thread that waits: a moment, after which it asks whether the device still runs, where
  // nothing has ended for long since `sign_ns`, when it began to wait or asked last.
  void wait_a_little(Lock& lock, TimeNs& sign_ns);
  [[nodiscard]] SharedWait::Launch for_shared_wait(std::uint32_t tag) const;
  [[nodiscard]] bool shares_wait(std::uint32_t tag, const SharedWait::Launch& launch) const;
  void put_wait(std::uint32_t tag, const SharedWait::Launch& issued, Lock& lock);
  // The driver thread's.
  void let_those_together_go();
  void let_go(std::uint32_t tag);

  // driven_standstill.cc; the driver thread's
  void look_for_ends();
  void let_next_go();

  // driven_markers.cc
  void put_markers(Lock& lock);
  void put_marker(StreamId id, Lock& lock);
  void ask_whether_alive(Lock& lock);
  void ask_whether_alive(StreamId id, Lock& lock);
  void stream_failed(StreamId id, CuContext context, std::string_view symbol, CuResult result);
  void take_ends();

  // driven_streams.cc
  [[nodiscard]] std::optional<StreamId> known_stream(CuStream stream) const;
  [[nodiscard]] bool comes_behind_others(CuStream stream, Lock& lock) const;
  [[nodiscard]] StreamId stream_of(CuStream stream, Lock& lock);

  // driven_program_thread.h
  // While it lives a thread of the program waits.
  class Held;
  // Runs `call` with that context current.
  template <typename Call>
  CuResult in_context(CuContext context, const Call& call) const;

  [[nodiscard]] Bytes bytes_of(BlockId id) const { return engine_.space().block(id).bytes; }

  Driver driver_;
  CudaOptions options_;
  Failures failures_;
  std::optional<StorageIo> storage_;

  mutable std::mutex
      mutex_;  // the engine's and that of all that follows, but for StreamOrder's mutexes
  AdmissionGovernor governor_;
  Engine engine_;
  StreamWaits stream_waits_;
  LaunchLog log_;
  StallClock stalls_;
  DeviceLaunches launches_;
  StreamOrder order_;
  Standstill standstill_;
  BlockBacking backing_;
  BypassMode bypass_;
  Recomputing recomputing_;
  std::uint64_t* fingerprints_ = nullptr;  // pinned, recomputing_'s
  std::atomic<bool> stores_launches_{false};
  std::atomic<bool> has_exposed_{false};
  std::unique_ptr<ProgramMemory> memory_;
  const std::atomic<int>* captures_ = nullptr;  // under way
  Exports exports_;
  HostRanges host_ranges_;
  HostRanges storage_ranges_;
  std::vector<std::uint64_t> issued_before_updates_;  // numbers by stream, when one began last
  bool waits_for_values_ = false;                     // the program has, on a stream
  HostBudget host_budget_;
  FreedRuns freed_runs_;
  // The engine's is larger while a launch runs that needs more. Written under the lock.
  std::atomic<Bytes> budget_bytes_{0};
  std::atomic<Bytes> heap_keeps_bytes_{~Bytes{0}};  // as keep_at_most was told last
  std::atomic<Bytes> live_bytes_{0};  // when something was born last. Written under the lock
  bool said_too_large_ = false;
  std::uint64_t shares_ = 0;       // with other devices, that have been ordered
  std::uint64_t shares_done_ = 0;  // and carried out
  std::uint32_t held_ = 0;         // threads of the program that wait in our code
  std::condition_variable changed_;
  bool said_no_memory_ = false;
  bool broken_ = false;  // a fatal error has been told
  TimeNs stuck_since_ns_ = 0;

  CuAddress reservation_ = 0;
  ExtraMemory extra_;
  DeviceUpdates updates_;
  std::unique_ptr<HostMemory> host_;
  std::unique_ptr<CommandQueue> queue_;
};

}  // namespace spillway::cuda
