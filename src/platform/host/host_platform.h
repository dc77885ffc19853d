// A real machine without a GPU: the device tier is memory at the program's own addresses, capped;
// the host tier is other memory; storage is a swap file. Layer: platform, host. docs/host.md.
// Page faults come from userfaultfd, copies are made by threads of this class, and the engine is
// asked under one lock. It decides nothing about migration. All functions are thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/spsc_queue.h"
#include "engine/engine.h"
#include "platform/host/block_io.h"
#include "platform/host/child_snapshots.h"
#include "platform/host/clock.h"
#include "platform/host/frame_pool.h"
#include "platform/host/link_throttle.h"
#include "platform/host/slot_pool.h"
#include "platform/host/staging_pool.h"
#include "platform/host/userfault.h"
#include "policy/launch_hash.h"
#include "policy/recorded_iteration.h"

namespace spillway::host {

struct HostOptions {
  Bytes device_bytes = 0;
  Bytes host_bytes = 0;
  LinkSpeed link;
  bool reclaim_discarded_first = true;  // EngineOptions::reclaim_discarded_first
  bool keep_frames = true;              // where the kernel can move pages (frame_pool.h)
  // Address space to reserve; 0: enough for what the tiers can hold, eight times over.
  Bytes address_bytes = 0;
  // Called by tests to put something between the platform and the swap file.
  std::function<std::unique_ptr<BlockIo>(std::unique_ptr<BlockIo>)> wrap_io;
  // Called once when no further step is safe; must not return to the program. The default prints
  // the error's line on standard error and ends the process with status 1.
  std::function<void(const Error&)> on_fatal;
  // One line for people. The default prints it on standard error.
  std::function<void(std::string_view)> warn;
  // After how long a thread that waits for room which running launches keep is told of.
  TimeNs warn_after_ns = 5'000'000'000;
};

// What happened, besides what the engine counts. Times are sums.
struct HostStats {
  EngineStats engine;
  std::array<Bytes, kTierCount> used_bytes{};
  Bytes live_bytes = 0;  // allocated and neither freed nor retired
  Bytes live_peak_bytes = 0;
  std::uint64_t page_faults = 0;   // threads that stopped at a block that was not there
  std::uint64_t write_faults = 0;  // ... at a block that was there, to write it for the first time
  TimeNs stalled_ns = 0;           // during which at least one thread was stopped
  TimeNs fault_wait_ns = 0;        // of all threads' stops, together
  TimeNs copy_ns = 0;              // that threads of ours spent copying
  Bytes copied_bytes = 0;          // in that time
  TimeNs processor_ns = 0;         // that the four threads have run on a processor
  // The swap file: what was read and written, and how long at least one such request was under way.
  std::array<Bytes, 2> io_bytes{};
  std::array<TimeNs, 2> io_busy_ns{};
};

// What the launches with one execution id waited for.
struct LaunchWaits {
  std::string name;
  std::uint64_t launches = 0;
  std::uint64_t blocks = 0;  // that threads stopped at
  TimeNs wait_ns = 0;
  TimeNs host_ns = 0;     // of that, for blocks from host memory
  TimeNs storage_ns = 0;  // ... from storage
  TimeNs fresh_ns = 0;    // ... for new memory, or for leave to write
};

class HostPlatform final : private Mechanism {
 public:
  // The policy must outlive it. storage: nullopt for none. Starts the threads. Fails with
  // kUnsupported where userfaultfd is not to be had, kInvalidInput for budgets that are too small.
  static Result<std::unique_ptr<HostPlatform>> create(const HostOptions& options,
                                                      std::optional<SwapFile> storage,
                                                      Policy& policy);
  // No thread may use the memory any more.
  ~HostPlatform() override;

  // --- Memory ---------------------------------------------------------------------------------

  // What new memory holds.
  enum class Fresh : std::uint8_t { kZeros, kAnything };
  // 2 MiB-aligned memory. Fails with kUnsupported, naming the budget, if the tiers together could
  // not hold it. kAnything may show what the process itself had in memory before, and costs less.
  Result<void*> allocate(Bytes bytes, Fresh fresh = Fresh::kZeros);
  // `start` is what allocate gave.
  void free(void* start);
  // The contents are dead, and the program promises not to touch the memory before `reuse`, which
  // may fail like allocate, and after which it holds anything: for allocators that keep what they
  // are given back. A retired allocation needs no room in any tier.
  void retire(void* start);
  Status reuse(void* start);
  // The following name bytes of one allocation. What moves are the blocks in which they lie; what
  // is discarded are blocks all of whose bytes they are. A whole allocation that is discarded is a
  // tensor that is dead (UVM Discard section 4), which planning policies want to know.
  void discard(void* start, Bytes bytes, DiscardMode mode);
  void prefetch(void* start, Bytes bytes);
  void pre_evict(void* start, Bytes bytes, Tier to);
  // 0 if it is no allocation's start.
  [[nodiscard]] Bytes size_of(const void* start) const;
  [[nodiscard]] bool contains(const void* address) const {
    return address >= base_ && address < base_ + address_bytes_;
  }

  // --- Launches -------------------------------------------------------------------------------

  // A launch that names what it uses: returns when all of it is resident, where it stays until the
  // end. One that does not fit in the budget runs on page faults.
  struct Operand {
    void* start = nullptr;  // of bytes of one allocation
    Bytes bytes = 0;
    AccessMode mode = AccessMode::kRead;
  };
  LaunchId begin_launch(std::string_view name, std::span<const Operand> operands);
  void end_launch(LaunchId launch);
  // Whether such a launch would find room now, beside those that run.
  [[nodiscard]] LaunchFit fit(std::span<const Operand> operands) const;
  // A launch of which only the boundary is known: it begins now, and the one before it ends. Does
  // not wait. `hash` tells whether two are the same; `name` is for people, and is copied once.
  // `tells_all`: mark_access follows for everything that it uses.
  void mark_launch(LaunchHash hash, std::string_view name, bool tells_all = false);
  // The launch that was marked last uses this memory. Does not wait.
  void mark_access(const void* start, Bytes bytes, bool writes);

  // Between two iterations: what is launched, used and freed from here on is recorded, until
  // end_recording, which is nullopt if nothing was launched.
  void begin_recording();
  std::optional<RecordedIteration> end_recording();
  // Between two events: `change` may change the policy.
  void change_policy(const std::function<void()>& change);

  // --- State ----------------------------------------------------------------------------------

  // Around a fork() by this thread, in the parent: in between nothing moves, so that the child
  // finds all memory as it was (child_snapshots.h). Without fork events the space stays the
  // parent's, and a child that touches it is ended by the system.
  void before_fork();
  void after_fork();

  Status set_device_capacity(Bytes bytes);
  [[nodiscard]] HostStats stats() const;
  // Longest wait first.
  [[nodiscard]] std::vector<LaunchWaits> waits() const;
  [[nodiscard]] Bytes capacity_bytes(Tier tier) const;
  // Waits until nothing moves.
  void wait_until_idle();
  [[nodiscard]] Status check_invariants() const;

 private:
  struct Place {
    std::uint64_t host = kNoPlace;     // offset in the host arena
    std::uint64_t storage = kNoPlace;  // ... in the swap file
    Bytes populated_bytes = 0;         // the device pages are there: so many; or none
    bool writable = false;             // ... not protected
    bool awaited = false;
    bool wants_zeros = true;       // where it has no contents; else anything will do
    bool zeroed = false;           // ... and not all of it is about to be overwritten
    Source from = Source::kZeros;  // where its bytes came from last
    TimeNs awaited_since_ns = 0;
    ExecutionId awaited_by = kNoExecution;
  };
  struct Job {
    Transfer transfer;
    // By block of the transfer; fixed when it starts.
    std::vector<Bytes> block_bytes;
    std::vector<std::uint64_t> host_offset;
    std::vector<std::uint64_t> storage_offset;
    std::vector<char> writable;  // on arrival
    std::vector<char> touched;   // written by somebody while it arrived to be read only
    // For what comes from storage: where each block arrives, and the buffers that these lie in.
    std::vector<char*> staging;
    std::vector<char*> buffers;
    std::atomic<std::uint32_t> io_left{0};
    std::atomic<int> io_error{0};
    std::atomic<bool> io_done{false};
    TimeNs ready_ns = 0;  // since when the link could take it
  };
  // Requests to the swap file in one direction.
  struct IoMeter {
    std::uint32_t under_way = 0;
    TimeNs since_ns = 0;
    TimeNs busy_ns = 0;
    Bytes bytes = 0;
  };
  // What one worker thread has to do: all of `first`, then of `second`; and what it has put on the
  // link, by when that arrives.
  struct WorkQueue {
    std::mutex mutex;
    std::condition_variable wanted;
    std::deque<std::shared_ptr<Job>> first;
    std::deque<std::shared_ptr<Job>> second;
    std::multimap<TimeNs, std::shared_ptr<Job>> on_link;
    bool stop = false;
  };
  struct FaultRecord {
    BlockId block = 0;
    bool write = false;
    TimeNs at_ns = 0;
  };
  // A launch, or what the last one uses.
  struct Mark {
    LaunchHash hash;
    std::string_view name;  // in names_
    BlockId first_block = 0;
    std::uint32_t block_count = 0;  // 0: a launch
    bool tells_all = false;         // of a launch
    bool writes = false;            // of a use
    // Of a launch, where an iteration is recorded.
    TimeNs at_ns = 0;
    TimeNs stalled_ns = 0;
  };

  HostPlatform(const HostOptions& options, std::optional<SwapFile> storage, Policy& policy,
               Userfault userfault);
  Status reserve();

  // Mechanism, host_mechanism.cc; with the lock held.
  void start_transfer(const Transfer& transfer) override;
  void zero(std::span<const BlockId> blocks) override;
  void map(std::span<const BlockId> blocks, bool writable) override;
  void unmap(std::span<const BlockId> blocks) override;
  void drop(std::span<const BlockId> blocks, Tier tier) override;
  void faults_served(std::uint64_t launch) override;
  void release_launch(std::uint64_t launch, std::span<const TransferId> transfers) override;
  void zero_block(BlockId block);
  void map_block(BlockId block, bool writable);
  void unmap_block(BlockId block);
  void drop_block(BlockId block, Tier tier);
  bool place_frame(char* block, bool zeroed);
  void trim_frames();
  void set_populated(Place& at, Bytes bytes);
  void populate(BlockId block, bool writable);
  void must(int error, const char* what);

  // host_threads.cc
  void start_threads();
  void stop_threads();
  void handle_faults();  // thread: faults from the kernel into the fault queue
  void take_own_faults();
  void correlate();  // thread: faults and marks into the engine
  void take_marks();
  void record_accesses(const Mark& mark);
  std::vector<std::pair<BlockId, std::uint32_t>>& uses_of(ExecutionId execution);
  void take_faults();
  void check_progress();
  void warn_of_waiting();
  void fault_on_dead_block(BlockId id);
  void fatal(const Error& error);

  // host_workers.cc
  void work(WorkQueue& queue);  // two threads: migration, prefetching
  std::shared_ptr<Job> next_carried(WorkQueue& queue, TimeNs& look_again_ns);
  std::shared_ptr<Job> next_waiting(WorkQueue& queue, TimeNs& look_again_ns);
  [[nodiscard]] static bool takes_link(const Job& job);
  void execute(const std::shared_ptr<Job>& job, WorkQueue& queue);
  void deliver(Job& job);
  void copy(Job& job);
  void fill_block(char* block, const void* from, Bytes bytes, bool writable);
  bool fill_by_frame(char* block, const void* from, char& writable, char& touched);
  void submit_io(const std::shared_ptr<Job>& job, WorkQueue& queue);
  void io_begins(bool write);
  void io_ended(bool write, Bytes bytes);
  void protect_unmapped(const Transfer& transfer);
  // What the last error was, for the line that the run ends with if it comes to that.
  void note_io_error(std::string text);
  [[nodiscard]] std::string io_error_text(bool write, Bytes bytes, std::uint64_t offset,
                                          int error) const;
  void finish(Job& job, int error);

  // host_fork.cc
  void inherit_unused_addresses(bool inherit);
  void release(const Snapshot& snapshot);
  void adopt_child(int fd);
  void serve_child(Child& child);
  void keep_again(const Snapshot& snapshot);
  using PageFault = decltype(uffd_msg::arg.pagefault);
  void answer_child(Child& child, const PageFault& fault);
  void end_stranger(pid_t process);
  void forget_ended_children();

  // host_memory.cc. Ranges of blocks are of one allocation, which is alive.
  struct BlockRange {
    AllocationId allocation = kNoAllocation;
    BlockId first = 0;
    std::uint32_t count = 0;
  };
  [[nodiscard]] std::optional<AllocationId> owner_of(const void* address) const;
  [[nodiscard]] std::optional<AllocationId> allocation_at(const void* start) const;
  [[nodiscard]] std::optional<BlockRange> blocks_with(const void* start, Bytes bytes) const;
  [[nodiscard]] std::optional<BlockRange> blocks_within(const void* start, Bytes bytes) const;
  [[nodiscard]] Bytes footprint_bytes(AllocationId id) const;
  Status commit(Bytes bytes);
  void uncommit(Bytes bytes);

  // host_launches.cc
  void add_accesses(const Operand& operand, Launch& launch) const;
  LaunchAdmission issue(const Launch& launch);
  void record_death(AllocationId id);
  LaunchWaits& waits_of(ExecutionId execution, std::string_view name);

  [[nodiscard]] char* address_of(BlockId id) const { return base_ + offset_of(id); }
  // A block's number says where it lies in the space: all blocks are of one size.
  [[nodiscard]] static std::uint64_t offset_of(BlockId id) { return id * kBlockBytes; }
  [[nodiscard]] Bytes bytes_of(BlockId id) const { return engine_.space().block(id).bytes; }
  Place& place(BlockId id);
  [[nodiscard]] TimeNs processor_ns() const;
  void begin_waiting(const FaultRecord& fault);
  void end_waiting(BlockId id);
  void begin_stall(TimeNs at_ns);
  void end_stall();
  void hurry(BlockId id);
  void wake_correlator();

  HostOptions options_;
  std::optional<SwapFile> storage_;
  Userfault userfault_;
  LinkThrottle link_;
  std::unique_ptr<BlockIo> io_;
  char* base_ = nullptr;
  Bytes address_bytes_ = 0;
  char* host_arena_ = nullptr;
  Bytes host_arena_bytes_ = 0;
  std::array<std::pair<void*, Bytes>, 2> mappings_{};  // what the destructor unmaps

  mutable std::mutex mutex_;  // the engine's and of everything below
  Engine engine_;
  SlotPool host_slots_;
  SlotPool storage_slots_;
  std::vector<Place> places_;
  std::vector<bool> retired_;  // by allocation
  Bytes committed_bytes_ = 0;
  ExecutionIds executions_;
  std::vector<LaunchWaits> waits_;
  std::uint64_t next_tag_ = 1;      // of launches
  std::optional<LaunchId> marked_;  // the launch that the last mark began
  Launch latest_;                   // that began last, without its operands
  bool marked_tells_all_ = false;
  // What launches that are only marked said that they use, first block and count, by execution.
  // Reads stop nowhere, so that is how prefetches are known to have been of use.
  std::vector<std::vector<std::pair<BlockId, std::uint32_t>>> uses_;
  ExecutionId current_ = kNoExecution;
  std::vector<std::uint64_t> ready_;  // tags
  std::condition_variable launch_ready_;
  std::condition_variable idle_;
  HostStats stats_;
  bool warned_ = false;
  std::uint32_t stopped_ = 0;  // blocks at which threads are stopped
  TimeNs stopped_since_ns_ = 0;
  std::atomic<TimeNs> stalled_ns_{0};  // HostStats::stalled_ns, but for a stall that lasts
  std::optional<IterationRecorder> recorder_;
  std::vector<ThreadFault> fault_batch_;

  Bytes populated_bytes_ = 0;            // of all places
  std::atomic<Bytes> landing_bytes_{0};  // pages that have appeared, of transfers under way

  bool forking_ = false;
  KeptPlaces kept_in_host_;
  KeptPlaces kept_in_storage_;
  std::mutex events_mutex_;  // from reading the kernel's events to having noted new children
  std::optional<Snapshot> next_snapshot_;  // for the child that is being made
  std::vector<Child> children_;            // the fault-handling thread's

  std::mutex frames_mutex_;
  std::unique_ptr<FramePool> frames_;  // nullptr: pages come from the system and go there

  SpscQueue<FaultRecord> fault_queue_;
  std::mutex marks_mutex_;
  std::vector<Mark> marks_;
  std::vector<Mark> marks_taken_;
  std::set<std::string, std::less<>> names_;
  std::atomic<bool> pressed_{false};  // something has had to leave the device
  std::mutex wake_mutex_;
  std::condition_variable wake_;
  bool woken_ = false;

  // The migration thread's: faults, then evictions. The prefetching thread's: prefetches, then
  // copies ahead of need.
  WorkQueue urgent_work_;
  WorkQueue ahead_work_;
  std::atomic<TimeNs> copy_ns_{0};
  std::atomic<Bytes> copied_bytes_{0};
  mutable std::mutex io_meters_mutex_;
  std::array<IoMeter, 2> io_meters_;  // reads, writes
  StagingPool staging_;
  std::mutex io_error_mutex_;
  std::string io_error_text_;
  std::atomic<bool> fatal_reported_{false};
  std::atomic<bool> stop_{false};
  Descriptor stop_event_;
  std::vector<std::thread> threads_;
};

}  // namespace spillway::host
