// Making a platform, and what it says of itself. See host_platform.h.
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

#include "platform/host/say.h"

namespace spillway::host {
namespace {

// Copies of single blocks, finished one by one: a thread that waits for a block should not wait for
// its neighbours. Eight under way keep a disk busy.
constexpr std::uint32_t kBatchesInFlight = 8;
constexpr Bytes kRoomAheadBytes = 16 * kMiB;
// Fewer blocks than an instruction and the copies around it may touch at once would never get on.
constexpr Bytes kSmallestBudget = 16 * kMiB;
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
