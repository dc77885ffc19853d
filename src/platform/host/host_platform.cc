// The program's side: memory, launches, state. See host_platform.h.
#include "platform/host/host_platform.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

namespace spillway::host {
namespace {

// Copies of single blocks, finished one by one: a thread that waits for a block should not wait for
// its neighbours. Eight under way keep a disk busy.
constexpr std::uint32_t kBatchesInFlight = 8;
constexpr Bytes kRoomAheadBytes = 16 * kMiB;
// Fewer blocks than an instruction and the copies around it may touch at once would never get on.
constexpr Bytes kSmallestBudget = 16 * kMiB;
// Of the lower tiers, what allocations cannot claim: somewhere for a victim to go first.
constexpr Bytes kExchangeBytes = 16 * kMiB;
// Address space for host memory, in times its size: a place may be twice its block's size, and
// those that children keep come on top.
constexpr Bytes kHostPlaces = 8;
constexpr unsigned kIoDepth = 8;
constexpr std::size_t kFaultQueueCapacity = 4096;
constexpr Bytes kLeastAddressBytes = 64 * kGiB;

EngineOptions engine_options(const HostOptions& options, const std::optional<SwapFile>& storage) {
  return {.device_capacity_bytes = options.device_bytes,
          .host_capacity_bytes = options.host_bytes,
          .storage_capacity_bytes = storage ? storage->bytes() : 0,
          .host_batch_bytes = kBlockBytes,
          .storage_batch_bytes = kBlockBytes,
          .eviction_batch_bytes = kBlockBytes,
          .batches_in_flight = kBatchesInFlight,
          .room_ahead_bytes = std::min(kRoomAheadBytes, options.device_bytes / 8),
          .reclaim_discarded_first = options.reclaim_discarded_first,
          .tracks_writes = true};
}

// The program may hold any lock of the C library's streams.
void say(std::string_view text) {
  const std::string line = fmt::format("spillway: {}\n", text);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void end_process(const Error& error) {
  say(error.message);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

Result<std::unique_ptr<HostPlatform>> HostPlatform::create(const HostOptions& options,
                                                           std::optional<SwapFile> storage,
                                                           Policy& policy) {
  if (options.device_bytes < kSmallestBudget) {
    return make_error(ErrorCode::kInvalidInput, "a device memory of {} is too small; at least {}",
                      format_bytes(options.device_bytes), format_bytes(kSmallestBudget));
  }
  Result<Userfault> userfault = Userfault::open();
  if (!userfault) {
    return tl::unexpected<Error>(userfault.error());
  }
  std::unique_ptr<HostPlatform> platform(
      new HostPlatform(options, std::move(storage), policy, std::move(*userfault)));
  if (const Status reserved = platform->reserve(); !reserved) {
    return tl::unexpected<Error>(reserved.error());
  }
  platform->start_threads();
  return platform;
}

HostPlatform::HostPlatform(const HostOptions& options, std::optional<SwapFile> storage,
                           Policy& policy, Userfault userfault)
    : options_(options),
      storage_(std::move(storage)),
      userfault_(std::move(userfault)),
      link_(options.link),
      engine_(engine_options(options, storage_), *this, policy),
      host_slots_(kHostPlaces * options.host_bytes),
      storage_slots_(storage_ ? 2 * storage_->bytes() : 0),
      fault_queue_(kFaultQueueCapacity) {
  if (!options_.on_fatal) {
    options_.on_fatal = end_process;
  }
  if (!options_.warn) {
    options_.warn = say;
  }
  if (storage_) {
    io_ = make_block_io(*storage_, kIoDepth);
    if (options_.wrap_io) {
      io_ = options_.wrap_io(std::move(io_));
    }
  }
}

HostPlatform::~HostPlatform() {
  stop_threads();
  io_.reset();
  for (const auto& [start, bytes] : mappings_) {
    if (bytes > 0) {
      ::munmap(start, bytes);
    }
  }
}

Status HostPlatform::reserve() {
  const Bytes tiers_bytes =
      options_.device_bytes + options_.host_bytes + (storage_ ? storage_->bytes() : 0);
  address_bytes_ = options_.address_bytes > 0
                       ? round_up(options_.address_bytes, kBlockBytes)
                       : std::max(kLeastAddressBytes, round_up(8 * tiers_bytes, kBlockBytes));
  host_arena_bytes_ = kHostPlaces * round_up(options_.host_bytes, kBlockBytes) + kBlockBytes;
  const std::array wanted{address_bytes_, host_arena_bytes_};
  std::array<char*, 2> starts{};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Bytes bytes = wanted[i] + kBlockBytes;  // to align it
    void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
      return make_error(ErrorCode::kUnsupported,
                        "cannot reserve {} of address space: {}; is there a limit (ulimit -v)?",
                        format_bytes(bytes), std::strerror(errno));
    }
    mappings_[i] = {start, bytes};
    void* aligned = start;
    std::size_t space = bytes;
    starts[i] = static_cast<char*>(std::align(kBlockBytes, wanted[i], aligned, space));
  }
  base_ = starts[0];
  host_arena_ = starts[1];
  // Faults are served in small pages; huge ones could not be protected and dropped by block tails.
  ::madvise(base_, address_bytes_, MADV_NOHUGEPAGE);
  ::madvise(host_arena_, host_arena_bytes_, MADV_HUGEPAGE);
  ::madvise(host_arena_, host_arena_bytes_, MADV_DONTFORK);  // children ask for what they need
  if (!userfault_.reports_forks()) {
    ::madvise(base_, address_bytes_, MADV_DONTFORK);
  }
  if (Status watched = userfault_.watch(base_, address_bytes_); !watched) {
    return watched;
  }
  constexpr std::size_t kOnTheirWay = 32;
  if (!options_.keep_frames) {
    return {};
  }
  frames_ = FramePool::create(userfault_, options_.device_bytes / kBlockBytes + kOnTheirWay);
  return {};
}

// --- Memory
// ----------------------------------------------------------------------------------------

Bytes HostPlatform::footprint_bytes(AllocationId id) const {
  const Allocation& allocation = engine_.space().allocation(id);
  return (allocation.block_count - Bytes{1}) * kBlockBytes +
         bytes_of(allocation.first_block + allocation.block_count - 1);
}

// Every byte that is promised has a place in some tier, so that no later fault runs out of room.
Status HostPlatform::commit(Bytes bytes) {
  const Bytes below_bytes =
      engine_.capacity_bytes(Tier::kHost) + engine_.capacity_bytes(Tier::kStorage);
  const Bytes limit_bytes =
      engine_.capacity_bytes(Tier::kDevice) + below_bytes - std::min(below_bytes, kExchangeBytes);
  if (bytes > limit_bytes || committed_bytes_ > limit_bytes - bytes) {
    return make_error(
        ErrorCode::kUnsupported,
        "out of memory: {} asked for, {} in use; the budget is {} of device memory, {} of host "
        "memory and {} of storage; raise --host-memory or --storage",
        format_bytes(bytes), format_bytes(committed_bytes_),
        format_bytes(engine_.capacity_bytes(Tier::kDevice)),
        format_bytes(engine_.capacity_bytes(Tier::kHost)),
        format_bytes(engine_.capacity_bytes(Tier::kStorage)));
  }
  committed_bytes_ += bytes;
  stats_.live_bytes += bytes;
  stats_.live_peak_bytes = std::max(stats_.live_peak_bytes, stats_.live_bytes);
  return {};
}

void HostPlatform::uncommit(Bytes bytes) {
  committed_bytes_ -= bytes;
  stats_.live_bytes -= bytes;
}

Result<void*> HostPlatform::allocate(Bytes bytes, Fresh fresh) {
  const std::scoped_lock lock(mutex_);
  const Bytes asked_bytes = std::max(bytes, kPageBytes);
  if (const Status room =
          commit(asked_bytes > kTiB * kKiB ? asked_bytes : round_up(asked_bytes, kPageBytes));
      !room) {
    return tl::unexpected<Error>(room.error());
  }
  const Result<AllocationId> id = engine_.allocate(asked_bytes, 0);
  if (!id) {
    uncommit(round_up(asked_bytes, kPageBytes));
    return tl::unexpected<Error>(id.error());
  }
  const Allocation& allocation = engine_.space().allocation(*id);
  const BlockId end = allocation.first_block + allocation.block_count;
  if (Space::address_of(end) > address_bytes_) {
    uncommit(footprint_bytes(*id));
    engine_.free(*id);
    return make_error(ErrorCode::kUnsupported, "out of address space: {} are reserved",
                      format_bytes(address_bytes_));
  }
  retired_.resize(engine_.space().allocation_slots());
  retired_[*id] = false;
  for (BlockId block = allocation.first_block; block < end; ++block) {
    if (place(block).populated_bytes > 0) {  // touched while it belonged to nobody
      drop(block, Tier::kDevice);
    }
    place(block).wants_zeros = fresh == Fresh::kZeros;
  }
  // Who allocates memory is about to use it.
  take_marks();
  engine_.note_accesses(allocation.first_block, allocation.block_count);
  return address_of(allocation.first_block);
}

std::optional<AllocationId> HostPlatform::owner_of(const void* address) const {
  if (!contains(address)) {
    return std::nullopt;
  }
  const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(address) - base_);
  const std::uint64_t block = offset / kBlockBytes;
  const Space& space = engine_.space();
  if (block >= space.block_slots() || space.block(static_cast<BlockId>(block)).tenants == 0) {
    return std::nullopt;
  }
  return space.block(static_cast<BlockId>(block)).allocation;
}

std::optional<AllocationId> HostPlatform::allocation_at(const void* start) const {
  const std::optional<AllocationId> id = owner_of(start);
  const bool starts = id && address_of(engine_.space().allocation(*id).first_block) == start;
  return starts ? id : std::nullopt;
}

std::optional<HostPlatform::BlockRange> HostPlatform::blocks_with(const void* start,
                                                                  Bytes bytes) const {
  const std::optional<AllocationId> id = owner_of(start);
  if (!id || bytes == 0) {
    return std::nullopt;
  }
  const Allocation& allocation = engine_.space().allocation(*id);
  const auto from =
      static_cast<Bytes>(static_cast<const char*>(start) - address_of(allocation.first_block));
  if (bytes > allocation.bytes - std::min(from, allocation.bytes)) {
    return std::nullopt;
  }
  const Bytes first = from / kBlockBytes;
  const Bytes end = (from + bytes + kBlockBytes - 1) / kBlockBytes;
  return BlockRange{.allocation = *id,
                    .first = allocation.first_block + static_cast<BlockId>(first),
                    .count = static_cast<std::uint32_t>(end - first)};
}

// Of those, the ones without other bytes. There may be none.
std::optional<HostPlatform::BlockRange> HostPlatform::blocks_within(const void* start,
                                                                    Bytes bytes) const {
  std::optional<BlockRange> range = blocks_with(start, bytes);
  if (!range) {
    return range;
  }
  const Allocation& allocation = engine_.space().allocation(range->allocation);
  const char* const begin = static_cast<const char*>(start);
  const BlockId last = range->first + range->count - 1;
  const BlockId last_of_all = allocation.first_block + allocation.block_count - 1;
  const char* const end_of_last = last == last_of_all
                                      ? address_of(allocation.first_block) + allocation.bytes
                                      : address_of(last) + kBlockBytes;
  if (begin + bytes < end_of_last) {
    --range->count;
  }
  if (range->count > 0 && begin > address_of(range->first)) {
    ++range->first;
    --range->count;
  }
  return range;
}

Bytes HostPlatform::size_of(const void* start) const {
  const std::scoped_lock lock(mutex_);
  const std::optional<AllocationId> id = allocation_at(start);
  return id ? engine_.space().allocation(*id).bytes : 0;
}

void HostPlatform::free(void* start) {
  const std::scoped_lock lock(mutex_);
  const std::optional<AllocationId> id = allocation_at(start);
  if (!id) {
    return;
  }
  const Allocation allocation = engine_.space().allocation(*id);
  if (!retired_[*id]) {
    uncommit(footprint_bytes(*id));
  }
  record_death(*id);
  engine_.free(*id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    end_waiting(allocation.first_block + i);
  }
}

void HostPlatform::discard(void* start, Bytes bytes, DiscardMode mode) {
  const std::scoped_lock lock(mutex_);
  const std::optional<BlockRange> range = blocks_within(start, bytes);
  if (!range) {
    return;
  }
  if (range->count == engine_.space().allocation(range->allocation).block_count) {
    record_death(range->allocation);
    engine_.discard(range->allocation, mode);
  } else {
    engine_.discard_blocks(range->first, range->count, mode);
  }
}

void HostPlatform::retire(void* start) {
  const std::scoped_lock lock(mutex_);
  const std::optional<AllocationId> id = allocation_at(start);
  if (!id) {
    return;
  }
  retired_[*id] = true;
  record_death(*id);
  uncommit(footprint_bytes(*id));
  engine_.discard(*id, DiscardMode::kLazy);
}

Status HostPlatform::reuse(void* start) {
  const std::scoped_lock lock(mutex_);
  const std::optional<AllocationId> id = allocation_at(start);
  if (!id) {
    return make_error(ErrorCode::kInvalidInput, "no allocation starts at {}", fmt::ptr(start));
  }
  if (Status room = commit(footprint_bytes(*id)); !room) {
    return room;
  }
  retired_[*id] = false;
  engine_.reuse(*id);
  take_marks();
  const Allocation& allocation = engine_.space().allocation(*id);
  engine_.note_accesses(allocation.first_block, allocation.block_count);
  return {};
}

void HostPlatform::prefetch(void* start, Bytes bytes) {
  const std::scoped_lock lock(mutex_);
  if (const std::optional<BlockRange> range = blocks_with(start, bytes)) {
    engine_.prefetch_blocks(range->first, range->count);
  }
}

void HostPlatform::pre_evict(void* start, Bytes bytes, Tier to) {
  const std::scoped_lock lock(mutex_);
  if (const std::optional<BlockRange> range = blocks_with(start, bytes)) {
    engine_.pre_evict_blocks(range->first, range->count, to);
  }
}

// --- Launches
// --------------------------------------------------------------------------------------

// Blocks at the ends of what a launch overwrites may have bytes that it does not.
void HostPlatform::add_accesses(const Operand& operand, Launch& launch) const {
  const std::optional<BlockRange> all = blocks_with(operand.start, operand.bytes);
  if (!all) {
    return;
  }
  const BlockId end = all->first + all->count;
  const auto add = [&](BlockId from, BlockId to, AccessMode mode) {
    if (from < to) {
      launch.accesses.push_back({.allocation = all->allocation,
                                 .first_block = from,
                                 .block_count = to - from,
                                 .mode = mode});
    }
  };
  const std::optional<BlockRange> whole = blocks_within(operand.start, operand.bytes);
  if (operand.mode != AccessMode::kOverwrite || !whole || whole->count == 0) {
    const bool overwrites = operand.mode == AccessMode::kOverwrite;
    add(all->first, end, overwrites ? AccessMode::kWrite : operand.mode);
    return;
  }
  add(all->first, whole->first, AccessMode::kWrite);
  add(whole->first, whole->first + whole->count, AccessMode::kOverwrite);
  add(whole->first + whole->count, end, AccessMode::kWrite);
}

LaunchSeq HostPlatform::begin_launch(std::string_view name, std::span<const Operand> operands) {
  std::unique_lock lock(mutex_);
  take_marks();
  Launch launch;
  std::vector<LaunchOperand> identity;
  for (const Operand& operand : operands) {
    add_accesses(operand, launch);
    const auto* const start = static_cast<const char*>(operand.start);
    identity.push_back(
        {.allocation = static_cast<std::uint64_t>(start - base_), .bytes = operand.bytes});
  }
  launch.seq = next_seq_++;
  launch.execution = executions_.id_of(hash_launch(name, identity));
  current_ = launch.execution;
  LaunchWaits& waits = waits_of(launch.execution, name);
  ++waits.launches;
  const TimeNs begin_ns = now_ns();
  if (recorder_) {
    recorder_->launch(launch.execution, name, begin_ns, stalled_ns_);
    for (const Access& access : launch.accesses) {
      recorder_->access(access.allocation, engine_.space().allocation(access.allocation).bytes,
                        writes(access.mode));
    }
  }
  const LaunchAdmission admission = engine_.begin_launch(launch);
  if (admission.state == LaunchState::kTooLarge) {
    launch.accesses.clear();
    engine_.begin_launch(launch);
  }
  for (const Access& access : launch.accesses) {
    engine_.note_accesses(access.first_block, access.block_count);
  }
  if (admission.state != LaunchState::kWaiting) {
    std::erase(ready_, launch.seq);
    return launch.seq;
  }
  begin_stall(begin_ns);
  launch_ready_.wait(lock, [&] { return std::erase(ready_, launch.seq) > 0; });
  end_stall();
  const TimeNs waited_ns = now_ns() - begin_ns;
  LaunchWaits& after = waits_[launch.execution];
  after.blocks += admission.missing_blocks;
  after.wait_ns += waited_ns;
  after.host_ns += waited_ns;
  stats_.fault_wait_ns += waited_ns;
  return launch.seq;
}

void HostPlatform::end_launch(LaunchSeq seq) {
  const std::scoped_lock lock(mutex_);
  engine_.end_launch(seq);
}

void HostPlatform::mark_launch(LaunchHash hash, std::string_view name, bool tells_all) {
  std::size_t waiting = 0;
  {
    const std::scoped_lock lock(marks_mutex_);
    auto known = names_.find(name);
    if (known == names_.end()) {
      known = names_.emplace(name).first;
    }
    marks_.push_back({.hash = hash,
                      .name = *known,
                      .first_block = 0,
                      .block_count = 0,
                      .tells_all = tells_all,
                      .writes = false,
                      .at_ns = now_ns(),
                      .stalled_ns = stalled_ns_});
    waiting = marks_.size();
  }
  // While nothing has had to leave, there is nothing to predict, and no hurry to learn.
  constexpr std::size_t kManyMarks = 256;
  if (pressed_.load(std::memory_order_relaxed) || waiting % kManyMarks == 0) {
    wake_correlator();
  }
}

void HostPlatform::mark_access(const void* start, Bytes bytes, bool writes) {
  if (!contains(start) || bytes == 0) {
    return;
  }
  const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(start) - base_);
  const std::uint64_t first = offset / kBlockBytes;
  const std::uint64_t last = (offset + bytes - 1) / kBlockBytes;
  const std::scoped_lock lock(marks_mutex_);
  marks_.push_back({.hash = {},
                    .name = {},
                    .first_block = static_cast<BlockId>(first),
                    .block_count = static_cast<std::uint32_t>(last - first + 1),
                    .tells_all = false,
                    .writes = writes,
                    .at_ns = 0,
                    .stalled_ns = 0});
}

void HostPlatform::begin_recording() {
  const std::scoped_lock lock(mutex_);
  take_marks();
  recorder_.emplace();
}

std::optional<RecordedIteration> HostPlatform::end_recording() {
  const std::scoped_lock lock(mutex_);
  take_marks();
  std::optional<IterationRecorder> recorder = std::exchange(recorder_, std::nullopt);
  return recorder ? recorder->finish(now_ns(), stalled_ns_) : std::nullopt;
}

void HostPlatform::change_policy(const std::function<void()>& change) {
  const std::scoped_lock lock(mutex_);
  change();
}

// What was launched before the death comes before it.
void HostPlatform::record_death(AllocationId id) {
  if (recorder_) {
    take_marks();
    recorder_->died(id);
  }
}

LaunchWaits& HostPlatform::waits_of(ExecutionId execution, std::string_view name) {
  if (execution >= waits_.size()) {
    waits_.resize(execution + std::size_t{1});
  }
  if (waits_[execution].name.empty()) {
    waits_[execution].name = name;
  }
  return waits_[execution];
}

// --- State
// -----------------------------------------------------------------------------------------

Status HostPlatform::set_device_capacity(Bytes bytes) {
  const std::scoped_lock lock(mutex_);
  if (bytes < kSmallestBudget) {
    return make_error(ErrorCode::kInvalidInput, "a device memory of {} is too small; at least {}",
                      format_bytes(bytes), format_bytes(kSmallestBudget));
  }
  return engine_.set_device_capacity(bytes);
}

HostStats HostPlatform::stats() const {
  const std::scoped_lock lock(mutex_);
  HostStats stats = stats_;
  stats.engine = engine_.stats();
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
    stats.used_bytes[index_of(tier)] = engine_.used_bytes(tier);
  }
  stats.stalled_ns = stalled_ns_ + (stopped_ > 0 ? now_ns() - stopped_since_ns_ : 0);
  stats.copy_ns = copy_ns_.load(std::memory_order_relaxed);
  stats.copied_bytes = copied_bytes_.load(std::memory_order_relaxed);
  stats.processor_ns = processor_ns();
  const std::scoped_lock meters(io_meters_mutex_);
  for (std::size_t i = 0; i < io_meters_.size(); ++i) {
    stats.io_bytes[i] = io_meters_[i].bytes;
    stats.io_busy_ns[i] = io_meters_[i].busy_ns;
  }
  return stats;
}

std::vector<LaunchWaits> HostPlatform::waits() const {
  const std::scoped_lock lock(mutex_);
  std::vector<LaunchWaits> waits = waits_;
  std::sort(waits.begin(), waits.end(),
            [](const LaunchWaits& a, const LaunchWaits& b) { return a.wait_ns > b.wait_ns; });
  return waits;
}

Bytes HostPlatform::capacity_bytes(Tier tier) const {
  const std::scoped_lock lock(mutex_);
  return engine_.capacity_bytes(tier);
}

void HostPlatform::wait_until_idle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return engine_.transfers_in_flight() == 0; });
}

Status HostPlatform::check_invariants() const {
  const std::scoped_lock lock(mutex_);
  return engine_.check_invariants();
}

// threads_ changes only while no other thread may call.
TimeNs HostPlatform::processor_ns() const {
  TimeNs sum_ns = 0;
  for (const std::thread& thread : threads_) {
    // native_handle is not const, though it changes nothing.
    const pthread_t handle =
        const_cast<std::thread&>(thread).native_handle();  // NOLINT(*-const-cast)
    clockid_t clock{};
    timespec time{};
    if (::pthread_getcpuclockid(handle, &clock) == 0 && ::clock_gettime(clock, &time) == 0) {
      sum_ns += time.tv_sec * TimeNs{1'000'000'000} + time.tv_nsec;
    }
  }
  return sum_ns;
}

}  // namespace spillway::host
