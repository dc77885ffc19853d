// Making a platform, its interface, and what it says of itself. See host_platform.h.
#include "platform/host/host_platform.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "platform/common/platform_engine.h"
#include "platform/common/process/clock.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"

namespace spillway::host {
namespace {

// Copies of single blocks, finished one by one: a thread that waits for a block should not wait for
// its neighbours. Eight under way keep a disk busy.
constexpr std::uint32_t kBatchesInFlight = 8;
constexpr Bytes kRoomAheadBytes = 16 * kMiB;
// Address space for host memory, in times its size: a place may be twice its block's size, and
// those that children keep come on top.
constexpr Bytes kHostPlaces = 8;
constexpr unsigned kIoDepth = 8;
constexpr Bytes kLeastAddressBytes = 64 * kGiB;
// More than there are addresses anywhere; eight times as much is still a number.
constexpr Bytes kMostTiersBytes = Bytes{1} << 60U;

EngineOptions engine_options(const HostOptions& options, Bytes storage_bytes) {
  return {.device_capacity_bytes = options.device_bytes,
          .host_capacity_bytes = options.host_bytes,
          .storage_capacity_bytes = storage_bytes,
          .host_batch_bytes = kBlockBytes,
          .storage_batch_bytes = kBlockBytes,
          .eviction_batch_bytes = kBlockBytes,
          .batches_in_flight = kBatchesInFlight,
          .room_ahead_bytes = std::min(kRoomAheadBytes, options.device_bytes / 8),
          .reclaim_discarded_first = options.reclaim_discarded_first,
          .frugal = options.reclaim_discarded_first,
          .tracks_writes = true};
}

Status check_budget(Bytes bytes) {
  if (bytes < kSmallestBudgetBytes) {
    return make_error(ErrorCode::kInvalidInput, "a device memory of {} is too small; at least {}",
                      format_bytes(bytes), format_bytes(kSmallestBudgetBytes));
  }
  return {};
}

// `error`: too few addresses for all of them.
tl::unexpected<Error> too_large(const HostOptions& options, Bytes storage_bytes,
                                const Error& error) {
  std::string tiers =
      fmt::format("device memory of {}, host memory of {}", format_bytes(options.device_bytes),
                  format_bytes(options.host_bytes));
  if (storage_bytes > 0) {
    tiers += fmt::format(", storage of {}", format_bytes(storage_bytes));
  }
  return make_error(error.code, "{}: {}", tiers, error.message);
}

Bytes addresses_for(Bytes tiers_bytes) {
  return std::max(kLeastAddressBytes,
                  round_up(8 * std::min(tiers_bytes, kMostTiersBytes), kBlockBytes));
}

Bytes addresses_for_places(Bytes host_bytes) {
  return kHostPlaces * round_up(host_bytes, kBlockBytes) + kBlockBytes;
}

}  // namespace

Bytes reserved_address_bytes(Bytes device_bytes, Bytes host_bytes, Bytes storage_bytes) {
  return addresses_for(device_bytes + host_bytes + storage_bytes) +
         addresses_for_places(host_bytes);
}

Result<std::unique_ptr<HostPlatform>> HostPlatform::create(const HostOptions& options,
                                                           std::optional<SwapFile> storage,
                                                           Policy& policy) {
  if (const Status enough = check_budget(options.device_bytes); !enough) {
    return tl::unexpected<Error>(enough.error());
  }
  Result<Userfault> userfault = Userfault::open();
  if (!userfault) {
    return tl::unexpected<Error>(userfault.error());
  }
  const Bytes storage_bytes = storage ? storage->bytes() : 0;
  const Bytes address_bytes =
      options.address_bytes > 0
          ? round_up(options.address_bytes, kBlockBytes)
          : addresses_for(options.device_bytes + options.host_bytes + storage_bytes);
  Result<Reservation> addresses = Reservation::make(address_bytes);
  if (!addresses) {
    return too_large(options, storage_bytes, addresses.error());
  }
  Result<Reservation> host_memory = Reservation::make(addresses_for_places(options.host_bytes));
  if (!host_memory) {
    return too_large(options, storage_bytes, host_memory.error());
  }
  // Faults are served in small pages; huge ones could not be protected and dropped by block tails.
  ::madvise(addresses->start(), addresses->bytes(), MADV_NOHUGEPAGE);
  ::madvise(host_memory->start(), host_memory->bytes(), MADV_HUGEPAGE);
  // Children ask for what they need.
  ::madvise(host_memory->start(), host_memory->bytes(), MADV_DONTFORK);
  if (!userfault->reports_forks()) {
    ::madvise(addresses->start(), addresses->bytes(), MADV_DONTFORK);
  }
  if (const Status watched = userfault->watch(addresses->start(), addresses->bytes()); !watched) {
    return tl::unexpected<Error>(watched.error());
  }
  return std::unique_ptr<HostPlatform>(
      new HostPlatform(options, std::move(storage), policy, std::move(*userfault),
                       std::move(*addresses), std::move(*host_memory)));
}

HostPlatform::HostPlatform(const HostOptions& options, std::optional<SwapFile> storage,
                           Policy& policy, Userfault userfault, Reservation addresses,
                           Reservation host_memory)
    : options_(options),
      failures_(options.on_fatal),
      userfault_(std::move(userfault)),
      host_memory_(std::move(host_memory)),
      engine_(engine_options(options, storage ? storage->bytes() : 0), *this, policy),
      addresses_(std::move(addresses), engine_.space()),
      pages_(userfault_, addresses_, failures_, options.device_bytes, options.keep_frames),
      places_(kHostPlaces * options.host_bytes, storage ? 2 * storage->bytes() : 0),
      launches_(engine_, addresses_, pages_, log_, stalls_,
                [this](AllocationId id)
                    SPILLWAY_REQUIRES(mutex_) { return memory_.bytes_in_use(id); }),
      updates_(engine_, addresses_, places_, failures_, stalls_, host_memory_.start()),
      threads_(userfault_, addresses_, pages_, log_, stalls_),
      memory_(engine_, addresses_, pages_, launches_, threads_) {
  if (!options_.warn) {
    options_.warn = say;
  }
  if (storage) {
    storage_.emplace(std::move(*storage), kIoDepth, options_.wrap_io);
  }
  StorageIo* const io = storage_ ? &*storage_ : nullptr;
  TransferCarrier& carrier = *this;
  workers_ = std::make_unique<TransferWorkers>(options_.link, io, staging_, failures_, carrier);
  forks_ = std::make_unique<ForkServer>(ForkServer::Parent{.mutex = mutex_,
                                                           .userfault = userfault_,
                                                           .addresses = addresses_,
                                                           .pages = pages_,
                                                           .places = places_,
                                                           .host_memory = host_memory_.start(),
                                                           .storage = io,
                                                           .staging = staging_,
                                                           .failures = failures_,
                                                           .warn = options_.warn});
  reader_ = std::make_unique<FaultReader>(userfault_, addresses_, *forks_, wake_);
  correlator_ = service_thread("spw-correlate", [this] { correlate(); });
}

HostPlatform::~HostPlatform() {
  stop_ = true;
  wake_.call();
  correlator_.join();
  reader_.reset();
  wait_until_idle();  // nothing begins any more
  forks_.reset();
  workers_.reset();
}

Result<void*> HostPlatform::allocate(Bytes bytes, Fresh fresh) {
  const MutexLock lock(mutex_);
  return memory_.allocate(bytes, bytes, fresh);
}

Result<void*> HostPlatform::allocate_with_room(Bytes bytes, Bytes most_bytes, Fresh fresh) {
  const MutexLock lock(mutex_);
  return memory_.allocate(bytes, most_bytes, fresh);
}

Status HostPlatform::grow(void* start, Bytes bytes) {
  const MutexLock lock(mutex_);
  return memory_.grow(start, bytes);
}

void HostPlatform::free(void* start) {
  const MutexLock lock(mutex_);
  memory_.free(start);
}

void HostPlatform::retire(void* start) {
  const MutexLock lock(mutex_);
  memory_.retire(start);
}

Status HostPlatform::reuse(void* start) {
  const MutexLock lock(mutex_);
  return memory_.reuse(start);
}

Status HostPlatform::reuse_first(void* start, Bytes bytes) {
  const MutexLock lock(mutex_);
  return memory_.reuse_first(start, bytes);
}

bool HostPlatform::addresses_had_better_repeat() const {
  const MutexLock lock(mutex_);
  return memory_.addresses_had_better_repeat();
}

bool HostPlatform::ready_for_reuse(const void* start, Bytes bytes) const {
  const MutexLock lock(mutex_);
  return memory_.ready_for_reuse(start, bytes);
}

void HostPlatform::provide(void* start) {
  const MutexLock lock(mutex_);
  memory_.provide(start);
}

void HostPlatform::discard(void* start, Bytes bytes, DiscardMode mode) {
  const MutexLock lock(mutex_);
  memory_.discard(start, bytes, mode);
}

void HostPlatform::clear(void* start, Bytes bytes) {
  const MutexLock lock(mutex_);
  memory_.clear(start, bytes, mutex_, idle_);
}

void HostPlatform::give_up(void* start, Bytes bytes) {
  const MutexLock lock(mutex_);
  memory_.give_up(start, bytes, mutex_, idle_);
}

void HostPlatform::prefetch(void* start, Bytes bytes) {
  const MutexLock lock(mutex_);
  memory_.prefetch(start, bytes);
}

void HostPlatform::pre_evict(void* start, Bytes bytes, Tier to) {
  const MutexLock lock(mutex_);
  memory_.pre_evict(start, bytes, to);
}

Bytes HostPlatform::size_of(const void* start) const {
  const MutexLock lock(mutex_);
  return memory_.size_of(start);
}

LaunchId HostPlatform::begin_launch(std::string_view name, std::span<const ProgramOperand> operands,
                                    const std::function<void()>& in_line) {
  const MutexLock lock(mutex_);
  return launches_.begin(name, operands, in_line, mutex_);
}

void HostPlatform::end_launch(LaunchId launch) {
  const MutexLock lock(mutex_);
  engine_.end_launch(launch);
}

std::optional<UpdateId> HostPlatform::begin_update(std::span<const ProgramOperand> operands) {
  const MutexLock lock(mutex_);
  launches_.record_update(operands);
  return updates_.begin(operands);
}

std::vector<Extents> HostPlatform::update_extents(UpdateId update) {
  const MutexLock lock(mutex_);
  return updates_.extents(update, mutex_);
}

void HostPlatform::end_update(UpdateId update) {
  const MutexLock lock(mutex_);
  updates_.end(update);
  idle_.notify_all();
}

LaunchFit HostPlatform::fit(std::span<const ProgramOperand> operands) const {
  const MutexLock lock(mutex_);
  return launches_.fit(operands);
}

void HostPlatform::mark_launch(LaunchHash hash, std::string_view name, bool tells_all) {
  if (launches_.mark(hash, name, tells_all)) {
    wake_.call();
  }
}

void HostPlatform::mark_access(const void* start, Bytes bytes, bool writes) {
  launches_.mark_access(start, bytes, writes);
}

void HostPlatform::begin_recording() {
  const MutexLock lock(mutex_);
  launches_.take_marks();
  log_.begin_recording();
}

std::optional<RecordedIteration> HostPlatform::end_recording() {
  const MutexLock lock(mutex_);
  launches_.take_marks();
  return log_.end_recording(now_ns(), stalls_.ended_stalls_ns());
}

void HostPlatform::log_events(EventLog* events) {
  const MutexLock lock(mutex_);
  log_.set_events(events);
}

void HostPlatform::change_policy(const std::function<void()>& change) {
  const MutexLock lock(mutex_);
  change();
}

// No handler runs meanwhile: where the program forks nothing would come for one that needs it.
void HostPlatform::wait_while(const std::function<bool()>& something_goes_on) {
  constexpr std::chrono::milliseconds kLookAgain{20};
  while (something_goes_on()) {
    mutex_.wait_for(idle_, kLookAgain);
  }
}

void HostPlatform::wait_for_transfers() {
  wait_while([this]() SPILLWAY_REQUIRES(mutex_) { return engine_.transfers_in_flight() > 0; });
}

void HostPlatform::before_fork() {
  mutex_.lock();  // held until after_fork
  // Of what an update writes now, the child would find a part that was written after the fork.
  updates_.stop_beginning(true);
  wait_while([this]() SPILLWAY_REQUIRES(mutex_) { return updates_.any(); });
  // What moves now would be neither here nor there for it.
  forking_ = true;
  wait_for_transfers();
  forks_->before_fork(engine_.space());
}

void HostPlatform::after_fork() {
  const MutexLock lock(mutex_, std::adopt_lock);
  forking_ = false;
  updates_.stop_beginning(false);
  forks_->after_fork();
  wake_.call();
}

// What the child has not inherited the kernel gives to the child's own mappings. Where it inherits
// nothing, the addresses that the parent uses stay taken: nothing else may ever lie there.
void HostPlatform::in_child() {
  if (!std::exchange(is_child_, true)) {  // else the child of a child
    mutex_.leave_held();
    addresses_.shrink(forks_->inherited_bytes());
    if (!userfault_.reports_forks() && addresses_.bytes() > 0) {
      keep_addresses_taken();
    }
  }
  forks_->in_child();  // last: it starts a thread
}

void HostPlatform::keep_addresses_taken() {
  const void* const hole =
      ::mmap(addresses_.base(), addresses_.bytes(), PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (hole != addresses_.base()) {
    failures_.fatal({ErrorCode::kUnsupported,
                     "a child of the program cannot keep its parent's addresses free, and would "
                     "take its own memory for its parent's"});
  }
}

Status HostPlatform::set_device_capacity(Bytes bytes) {
  const MutexLock lock(mutex_);
  Status changed = check_budget(bytes);
  if (changed) {
    changed = engine_.set_device_capacity(bytes);
  }
  pages_.set_capacity(engine_.frugal_bytes());
  return changed;
}

ProgramStats HostPlatform::stats() const {
  const MutexLock lock(mutex_);
  ProgramStats stats = stats_of(engine_, memory_.commitment(), storage_);
  stats.frames_peak_bytes = memory_.frames_peak_bytes();
  stats.page_faults = threads_.page_faults();
  stats.write_faults = threads_.write_faults();
  stats.stalled_ns = stalls_.total_ns();
  stats.fault_wait_ns = threads_.waited_ns() + launches_.waited_ns();
  stats.copy_ns = workers_->copy_ns();
  stats.copied_bytes = workers_->copied_bytes();
  stats.processor_ns = workers_->processor_ns() + forks_->processor_ns() + reader_->processor_ns() +
                       spillway::processor_ns(correlator_);
  return stats;
}

std::vector<LaunchWaits> HostPlatform::waits() const {
  const MutexLock lock(mutex_);
  return log_.longest_waits();
}

Bytes HostPlatform::capacity_bytes(Tier tier) const {
  const MutexLock lock(mutex_);
  return engine_.capacity_bytes(tier);
}

void HostPlatform::wait_until_idle() {
  const MutexLock lock(mutex_);
  wait_for_transfers();
}

Status HostPlatform::check_invariants() const {
  const MutexLock lock(mutex_);
  return engine_.check_invariants();
}

}  // namespace spillway::host
