// A real machine without a GPU: the device tier is memory at the program's own addresses, capped;
// the host tier is other memory; storage is a swap file. Layer: platform, host. docs/host.md.
// What stands here is the lock, the engine, and who is told what: page faults come from
// userfaultfd (fault_reader.h), pages are device_pages.h's, copies are made by threads
// (transfer_workers.h). It decides nothing about migration. All functions are thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "platform/common/process/wake_up.h"
#include "platform/common/program_platform.h"
#include "platform/common/storage/swap_file.h"
#include "platform/common/storage/transfer_workers.h"
#include "platform/host/faults/departures.h"
#include "platform/host/faults/fault_reader.h"
#include "platform/host/faults/pending_faults.h"
#include "platform/host/faults/waiting_threads.h"
#include "platform/host/fork/fork_server.h"
#include "platform/host/host_launches.h"
#include "platform/host/host_memory.h"
#include "platform/host/host_options.h"
#include "platform/host/host_updates.h"

namespace spillway::host {

// Of device memory. Fewer blocks than an instruction and the copies around it may touch at once
// would never get on.
inline constexpr Bytes kSmallestBudgetBytes = 16 * kMiB;

// Addresses that a space with such tiers reserves.
[[nodiscard]] Bytes reserved_address_bytes(Bytes device_bytes, Bytes host_bytes,
                                           Bytes storage_bytes);

class HostPlatform final : public ProgramPlatform, private Mechanism, private TransferCarrier {
 public:
  // The policy must outlive it. storage: nullopt for none. Starts the threads. Fails with
  // kUnsupported where userfaultfd is not to be had, kInvalidInput for budgets that are too small.
  static Result<std::unique_ptr<HostPlatform>> create(const HostOptions& options,
                                                      std::optional<SwapFile> storage,
                                                      Policy& policy);
  ~HostPlatform() override;

  using ProgramPlatform::allocate, ProgramPlatform::begin_launch;
  Result<void*> allocate(Bytes bytes, Fresh fresh) override;
  Result<void*> allocate_with_room(Bytes bytes, Bytes most_bytes, Fresh fresh) override;
  Status grow(void* start, Bytes bytes) override;
  void free(void* start) override;
  void retire(void* start) override;
  Status reuse(void* start) override;
  Status reuse_first(void* start, Bytes bytes) override;
  [[nodiscard]] bool addresses_had_better_repeat() const override;
  [[nodiscard]] bool ready_for_reuse(const void* start, Bytes bytes) const override;
  void provide(void* start) override;
  void discard(void* start, Bytes bytes, DiscardMode mode) override;
  void clear(void* start, Bytes bytes) override;
  void give_up(void* start, Bytes bytes) override;
  void prefetch(void* start, Bytes bytes) override;
  void pre_evict(void* start, Bytes bytes, Tier to) override;
  [[nodiscard]] Bytes size_of(const void* start) const override;
  [[nodiscard]] bool contains(const void* address) const override {
    return addresses_.contains(address);
  }

  LaunchId begin_launch(std::string_view name, std::span<const ProgramOperand> operands,
                        const std::function<void()>& in_line) override;
  void end_launch(LaunchId launch) override;
  [[nodiscard]] LaunchFit fit(std::span<const ProgramOperand> operands) const override;
  std::optional<UpdateId> begin_update(std::span<const ProgramOperand> operands) override;
  std::vector<Extents> update_extents(UpdateId update) override;
  void end_update(UpdateId update) override;
  void mark_launch(LaunchHash hash, std::string_view name, bool tells_all) override;
  void mark_access(const void* start, Bytes bytes, bool writes) override;
  void begin_recording() override;
  std::optional<RecordedIteration> end_recording() override;
  void change_policy(const std::function<void()>& change) override;

  // Without fork events the space stays the parent's: the system ends a child that touches it.
  void before_fork() override SPILLWAY_ACQUIRE(mutex_);
  void after_fork() override SPILLWAY_RELEASE(mutex_);
  void in_child() override SPILLWAY_REQUIRES(mutex_);
  void before_end() override { forks_->give_all(); }
  void keep_no_frames() override { pages_.keep_no_frames(); }
  void expect_pins() override { pages_.expect_pins(); }
  [[nodiscard]] std::vector<int> descriptors() const override { return {userfault_.fd()}; }
  Status set_device_capacity(Bytes bytes) override;
  [[nodiscard]] ProgramStats stats() const override;
  [[nodiscard]] std::vector<LaunchWaits> waits() const override;
  void log_events(EventLog* events) override;
  [[nodiscard]] Bytes capacity_bytes(Tier tier) const override;
  void wait_until_idle() override;
  [[nodiscard]] Status check_invariants() const override;

 private:
  HostPlatform(const HostOptions& options, std::optional<SwapFile> storage, Policy& policy,
               Userfault userfault, Reservation addresses, Reservation host_memory);

  // host_mechanism.cc; TransferCarrier without the lock.
  void start_transfer(const Transfer& transfer) override SPILLWAY_REQUIRES(mutex_);
  void zero(std::span<const BlockId> blocks) override SPILLWAY_REQUIRES(mutex_);
  void zero_at_host(std::span<const BlockId> blocks) override SPILLWAY_REQUIRES(mutex_);
  void map(std::span<const BlockId> blocks, bool writable) override SPILLWAY_REQUIRES(mutex_);
  void unmap(std::span<const BlockId> blocks) override SPILLWAY_REQUIRES(mutex_);
  void drop(std::span<const BlockId> blocks, Tier tier) override SPILLWAY_REQUIRES(mutex_);
  void faults_served(std::uint64_t launch) override SPILLWAY_REQUIRES(mutex_);
  void release_launch(std::uint64_t launch, std::span<const TransferId> transfers) override
      SPILLWAY_REQUIRES(mutex_);
  void* source_of(TransferJob& job, std::size_t index) override;
  void copy(TransferJob& job) override;
  void ended(TransferJob& job, int error) override;
  void copy_to_host(const Transfer& transfer, std::size_t index, TransferJob::Part& part);
  void depart(const TransferJob& job) SPILLWAY_REQUIRES(mutex_);
  void arrive(const TransferJob& job) SPILLWAY_REQUIRES(mutex_);
  void protect_unmapped(const Transfer& transfer) SPILLWAY_REQUIRES(mutex_);

  void wait_while(const std::function<bool()>& something_goes_on) SPILLWAY_REQUIRES(mutex_);
  void wait_for_transfers() SPILLWAY_REQUIRES(mutex_);
  void keep_addresses_taken();
  // host_correlator.cc: faults and marks into the engine
  void correlate();
  void take_faults() SPILLWAY_REQUIRES(mutex_);
  void check_progress() SPILLWAY_REQUIRES(mutex_);
  void warn_of_waiting() SPILLWAY_REQUIRES(mutex_);

  [[nodiscard]] Bytes bytes_of(BlockId id) const SPILLWAY_REQUIRES(mutex_) {
    return engine_.space().block(id).bytes;
  }

  HostOptions options_;
  Failures failures_;
  std::optional<StorageIo> storage_;
  Userfault userfault_;
  Reservation host_memory_;
  StagingPool staging_;

  mutable UndisturbedMutex mutex_;
  Engine engine_ SPILLWAY_GUARDED_BY(mutex_);
  AddressSpace addresses_;
  DevicePages pages_;
  LowerPlaces places_ SPILLWAY_GUARDED_BY(mutex_);
  LaunchLog log_ SPILLWAY_GUARDED_BY(mutex_);
  StallClock stalls_;
  HostLaunches launches_;
  HostUpdates updates_ SPILLWAY_GUARDED_BY(mutex_);
  WaitingThreads threads_ SPILLWAY_GUARDED_BY(mutex_);
  HostMemory memory_ SPILLWAY_GUARDED_BY(mutex_);
  std::condition_variable idle_;
  bool forking_ SPILLWAY_GUARDED_BY(mutex_) = false;
  bool is_child_ SPILLWAY_GUARDED_BY(mutex_) = false;
  bool warned_ SPILLWAY_GUARDED_BY(mutex_) = false;
  Departures departures_ SPILLWAY_GUARDED_BY(mutex_);
  PendingFaults faults_;  // the correlator's

  // The threads, which end in the opposite order.
  WakeUp wake_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<TransferWorkers> workers_;
  std::unique_ptr<ForkServer> forks_;
  std::unique_ptr<FaultReader> reader_;
  std::thread correlator_;
};

}  // namespace spillway::host
