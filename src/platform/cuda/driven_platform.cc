// Making a platform, memory, budgets, and what it says of itself. See driven_platform.h.
#include "platform/cuda/driven_platform.h"

#include <algorithm>
#include <utility>

#include "platform/common/gpu_sizes.h"
#include "platform/common/platform_engine.h"
#include "platform/common/process/say.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kIoDepth = 8;

EngineOptions engine_options(const CudaOptions& options, Bytes storage_bytes) {
  // Host memory grows as it is pinned. Copies out, and whatever goes through the swap file, block
  // by block: so that room is there soon, and staging is for one.
  return {.device_capacity_bytes = options.device_bytes,
          .host_capacity_bytes = 0,
          .storage_capacity_bytes = storage_bytes,
          .device_frame_bytes = kBlockBytes,
          .host_batch_bytes = copied_at_once_bytes(options.block_bytes),
          .storage_batch_bytes = 1,
          .eviction_batch_bytes = 1,
          .fault_batches_in_flight = 4,
          .room_ahead_bytes = std::min(64 * kMiB, options.device_bytes / 8),
          .reclaim_discarded_first = options.reclaim_discarded_first,
          .frames_have_sizes = true,
          .clean_copies = CleanCopies::kAll,
          .updates_are_certain = true};
}

Bytes whole_blocks(Bytes bytes) { return bytes / kBlockBytes * kBlockBytes; }

Status check_options(const Driver& driver, const CudaOptions& options) {
  if (options.device_bytes < kSmallestBudgetBytes) {
    return make_error(ErrorCode::kInvalidInput, "a device memory of {} is too small; at least {}",
                      format_bytes(options.device_bytes), format_bytes(kSmallestBudgetBytes));
  }
  CuDevice device = 0;
  if (Status found = check(driver, "cuDeviceGet", driver.device_get(&device, options.device));
      !found) {
    return found;
  }
  const std::pair<CuAttribute, std::string_view> needed[] = {
      {CuAttribute::kVirtualMemoryManagement, "mapping of memory by the program"},
      {CuAttribute::kStreamMemoryOperations64, "waits for values on streams"},
      {CuAttribute::kHostRegisterSupported, "pinning of host memory"},
      {CuAttribute::kUnifiedAddressing, "one address space with the host"}};
  for (const auto& [attribute, what] : needed) {
    int value = 0;
    (void)driver.device_attribute(&value, attribute, device);
    if (value == 0) {
      return make_error(ErrorCode::kUnsupported, "device {} or its driver has no {}",
                        options.device, what);
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<CudaPlatform>> CudaPlatform::create(const Driver& driver,
                                                           const CudaOptions& options,
                                                           std::optional<SwapFile> storage,
                                                           Policy& policy) {
  if (const Status fine = check_options(driver, options); !fine) {
    return tl::unexpected<Error>(fine.error());
  }
  auto platform = std::make_unique<DrivenPlatform>(driver, options, std::move(storage), policy);
  if (const Status started = platform->start(); !started) {
    return tl::unexpected<Error>(started.error());
  }
  return std::unique_ptr<CudaPlatform>(std::move(platform));
}

DrivenPlatform::DrivenPlatform(const Driver& driver, const CudaOptions& options,
                               std::optional<SwapFile> storage, Policy& policy)
    : driver_(driver),
      options_(options),
      failures_(options.on_fatal),
      governor_(policy),
      engine_(engine_options(options, storage ? whole_blocks(storage->bytes()) : 0), *this,
              governor_),
      stream_waits_(driver_),
      launches_(engine_, stream_waits_, log_, stalls_),
      order_(launches_, engine_),
      standstill_(launches_),
      bypass_({.engine = engine_,
               .launches = launches_,
               .order = order_,
               .governor = governor_,
               .backing = backing_},
              {.after = options.bypass_after,
               .after_at_most = options.bypass_after_at_most,
               .on_defect =
                   [this]() SPILLWAY_REQUIRES(mutex_) {
                     if (!std::exchange(broken_, true)) {
                       failures_.fatal(
                           {ErrorCode::kDefect, "what is on the device could not be kept there"});
                     }
                   }}),
      recomputing_(launches_, engine_),
      host_budget_(whole_blocks(options.host_bytes), options.pinned_piece_bytes,
                   options.memory_room != nullptr),
      extra_(driver_, options.device),
      updates_(engine_, host_ranges_, log_) {
  options_.host_bytes = whole_blocks(options.host_bytes);
  budget_bytes_ = options.device_bytes;
  if (!options_.warn) {
    options_.warn = say;
  }
  if (storage) {
    storage_ranges_.add(0, whole_blocks(storage->bytes()));
    storage_.emplace(std::move(*storage), kIoDepth, options_.wrap_io);
  }
  CommandQueue::Options queue{.device = options.device,
                              .budget_bytes = options.device_bytes,
                              .largest_block_bytes = options.block_bytes,
                              .storage = storage_ ? &*storage_ : nullptr,
                              .link = options.link,
                              .direct = {.place = options.cufile, .warn = options_.warn}};
  if (options_.memory_room) {
    queue.spare_bytes = [this] { return options_.memory_room().to_take_bytes(); };
  }
  CommandListener& listener = *this;
  queue_ = std::make_unique<CommandQueue>(driver_, queue, failures_, listener);
}

Status DrivenPlatform::start() { return queue_->start(); }

// start() waits for it: nobody else is here yet.
Status DrivenPlatform::begin(CuContext context) SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
  if (Status made = check(driver_, "cuMemHostAlloc", stream_waits_.make()); !made) {
    return made;
  }
  if (Status made = check(driver_, "cuMemAddressReserve",
                          driver_.address_reserve(&reservation_, options_.address_bytes, 0, 0, 0));
      !made) {
    return made;
  }
  // Nobody misses it: without fingerprints less is given up.
  constexpr Bytes kFingerprintBytes = Bytes{Recomputing::kFingerprints} * Recomputing::kPlaces *
                                      kFingerprintWords * sizeof(std::uint64_t);
  void* words = nullptr;
  if (options_.own_launches.fingerprint && governor_.recomputes() &&
      driver_.host_alloc(&words, kFingerprintBytes, kCuHostAllocPortable) == CuResult::kSuccess) {
    fingerprints_ = static_cast<std::uint64_t*>(words);
    recomputing_.set_words(fingerprints_);
  }
  // Large blocks lie at multiples of their size.
  const std::uint64_t start = round_up(reservation_, options_.block_bytes);
  const std::uint64_t end = whole_blocks(reservation_ + options_.address_bytes);
  memory_ = std::make_unique<ProgramMemory>(engine_, start, end - start, options_.block_bytes);
  note_room(options_.memory_room ? options_.memory_room() : MemoryRoom{});
  HostMemory::Options pinned{
      .most_bytes = options_.host_bytes,
      .piece_bytes = options_.pinned_piece_bytes,
      .grown = [this](std::uint64_t at, Bytes bytes) { host_grown(at, bytes); },
      .ended = [this](const Error& error) { host_ended(error); },
      .spare_bytes = nullptr,
      .is_short = [this](bool is_short) { host_is_short(is_short); }};
  if (options_.memory_room) {
    pinned.spare_bytes = [this](Bytes pinned_bytes) { return spare_bytes(pinned_bytes); };
  }
  Result<std::unique_ptr<HostMemory>> host = HostMemory::make(driver_, context, std::move(pinned));
  if (!host) {
    return tl::unexpected<Error>(host.error());
  }
  host_ = std::move(*host);
  host_budget_.allow_host_mapped(!options_.link.limited() &&
                                 node_of_host_handles(driver_, options_.device).has_value());
  return {};
}

DrivenPlatform::~DrivenPlatform() {
  {
    Lock lock(mutex_);
    bypass_.leave();
    wait_until([&]() SPILLWAY_REQUIRES(mutex_) {
      return launches_.in_flight() == 0 && updates_.any() == 0;
    });
  }
  queue_->stop();
  // What has told the queue of a request's end may not have returned from doing so.
  storage_.reset();
}

// The driver thread has unmapped everything.
// The last that the driver thread does, when all other threads are gone.
void DrivenPlatform::end() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
  if (host_) {
    host_->unregister();
  }
  stream_waits_.give_back();
  if (fingerprints_ != nullptr) {
    (void)driver_.host_free(fingerprints_);
  }
  extra_.give_back();
  if (reservation_ != 0) {
    (void)driver_.address_free(reservation_, options_.address_bytes);
  }
}

// --- Memory -------------------------------------------------------------------------------------

Result<std::uint64_t> DrivenPlatform::allocate(Bytes bytes) {
  Lock lock(mutex_);
  look_for_room(bytes);
  let_updates_end(bytes);
  newest_stays();
  Result<std::uint64_t> address = memory_->allocate(bytes);
  if (address) {
    bypass_.lives(memory_->number_of(*address));
  }
  if (!memory_->may_undo()) {
    want_host();
  }
  if (address) {
    born(memory_->number_of(*address));
  }
  return address;
}

void DrivenPlatform::free(std::uint64_t address) {
  Lock lock(mutex_);
  before_death(address, false, std::nullopt);
  if (const std::optional<AllocationId> freed = memory_->free(address)) {
    recomputing_.dies(*freed);
    end_export(*freed);
    bypass_.freed(*freed);
    engine_.free(*freed);
    bypass_.open_calls();
    if (memory_->has_reserved()) {
      keep_handles();
    }
  }
}

// What is settled launches may use of which nobody was told.
bool DrivenPlatform::undo_allocate(std::uint64_t address) {
  const Lock lock(mutex_);
  if (!memory_->may_undo() || !bypass_.is_unsettled(memory_->number_of(address))) {
    return false;
  }
  const std::optional<AllocationId> undone = memory_->undo_allocate(address);
  if (!undone) {
    return false;
  }
  recomputing_.dies(*undone);
  bypass_.freed(*undone);
  engine_.free(*undone);
  bypass_.open_calls();
  return true;
}

// From here on it counts as having been alive.
void DrivenPlatform::newest_stays() {
  if (memory_->may_undo()) {
    memory_->no_undo();
    want_host();
  }
}

void DrivenPlatform::retire(std::uint64_t address, std::optional<CuStream> next_on) {
  retire(address, next_on, false);
}

void DrivenPlatform::retire_keeping_room(std::uint64_t address, std::optional<CuStream> next_on) {
  retire(address, next_on, true);
}

void DrivenPlatform::retire(std::uint64_t address, std::optional<CuStream> next_on,
                            bool keeps_room) {
  Lock lock(mutex_);
  before_death(address, true, next_on);
  bypass_.settle_those_ready();  // before what lives for one launch dies unsettled, each time anew
  const std::optional<AllocationId> retired = memory_->retire(address, keeps_room);
  if (!retired) {
    return;
  }
  recomputing_.dies(*retired);
  if (bypass_.retired(*retired)) {
    engine_.discard(*retired, DiscardMode::kLazy);
    bypass_.open_calls();
  }
}

Status DrivenPlatform::reuse(std::uint64_t address) {
  Lock lock(mutex_);
  look_for_room(memory_->dead_bytes_at(address));
  let_updates_end(memory_->dead_bytes_at(address));
  newest_stays();
  const Result<std::optional<AllocationId>> reused = memory_->reuse(address);
  if (!reused) {
    return tl::unexpected<Error>(reused.error());
  }
  const std::optional<AllocationId> again = *reused;
  if (again) {
    bypass_.lives(*again);
  }
  want_host();
  if (again) {
    born(*again);
  }
  return {};
}

// Who says so does not know of what the program places itself.
void DrivenPlatform::keep_at_most(Bytes bytes) {
  heap_keeps_bytes_ = bytes;
  keep_handles();
}

void DrivenPlatform::keep_handles() {
  Bytes bytes = heap_keeps_bytes_;
  bytes += std::min(memory_->placed_bytes(), ~bytes);
  queue_->keep_at_most(bytes);
  if (queue_->handle_bytes() > bytes) {
    queue_->push({.kind = DriverCommand::Kind::kTrim});
  }
}

// --- Budget and state ---------------------------------------------------------------------------

Status DrivenPlatform::set_device_capacity(Bytes bytes) {
  if (bytes < kSmallestBudgetBytes) {
    return make_error(ErrorCode::kInvalidInput, "a device memory of {} is too small; at least {}",
                      format_bytes(bytes), format_bytes(kSmallestBudgetBytes));
  }
  Lock lock(mutex_);
  bypass_.leave();
  const bool more = bytes > budget_bytes_;
  const auto tell_pool = [&] {
    queue_->push({.kind = DriverCommand::Kind::kBudget, .bytes = bytes});
  };
  if (more) {
    tell_pool();  // before what the engine will order with it
  }
  // Launches that were issued before and need more may still be on their way.
  const std::vector<std::uint64_t> before = launches_.issued_by_stream();
  Status changed;
  wait_until([&]() SPILLWAY_REQUIRES(mutex_) {
    changed = engine_.set_device_capacity(bytes);
    return changed.has_value() || launches_.have_ended(before);
  });
  if (changed) {
    budget_bytes_ = bytes;
  }
  if (changed.has_value() != more) {
    queue_->push({.kind = DriverCommand::Kind::kBudget, .bytes = budget_bytes_});
  }
  set_limits();
  want_host();
  return changed;
}

ProgramStats DrivenPlatform::stats() const {
  const Lock lock(mutex_);
  ProgramStats stats = stats_of(engine_, memory_->commitment(), storage_);
  stats.engine.launches += bypass_.calls().calls();
  stats.stalled_ns = stalls_.total_ns();
  stats.fault_wait_ns = stalls_.total_ns();
  stats.copied_bytes = queue_->copied_bytes();
  stats.processor_ns = queue_->processor_ns();
  return stats;
}

std::vector<LaunchWaits> DrivenPlatform::waits() const {
  const Lock lock(mutex_);
  return log_.longest_waits();
}

std::vector<CudaPlatform::Work> DrivenPlatform::work() const {
  const Lock lock(mutex_);
  std::vector<Work> all;
  for (std::size_t i = 0; i < WorkTimes::kCount; ++i) {
    const auto what = static_cast<WorkTimes::What>(i);
    all.push_back({.name = WorkTimes::kNames[i],
                   .count = queue_->times().count(what),
                   .time_ns = queue_->times().time_ns(what)});
  }
  const DeviceLaunches::Waited& waited = launches_.waited();
  all.push_back(
      {.name = "stalled_unreleased", .count = waited.count, .time_ns = waited.unreleased_ns});
  all.push_back({.name = "stalled_unmapped", .count = waited.count, .time_ns = waited.unmapped_ns});
  all.push_back(
      {.name = "unseen", .count = bypass_.calls().calls() - bypass_.looked_at(), .time_ns = 0});
  all.push_back({.name = "looked_at", .count = bypass_.looked_at(), .time_ns = 0});
  all.push_back({.name = "told", .count = engine_.stats().launches, .time_ns = 0});
  return all;
}

void DrivenPlatform::log_events(EventLog* events) {
  const Lock lock(mutex_);
  bypass_.leave();  // which could tell of nothing
  log_.set_events(events);
}

Bytes DrivenPlatform::capacity_bytes(Tier tier) const {
  const Lock lock(mutex_);
  if (tier == Tier::kDevice) {
    return budget_bytes_;
  }
  return tier == Tier::kHost ? host_budget_.limit_bytes(engine_.host_mapped_bytes())
                             : engine_.capacity_bytes(tier);
}

void DrivenPlatform::wait_until_idle() {
  Lock lock(mutex_);
  wait_until([&]() SPILLWAY_REQUIRES(mutex_) {
    return engine_.transfers_in_flight() == 0 && queue_->empty() && launches_.waiting() == 0 &&
           !updates_.some_wait();
  });
}

Status DrivenPlatform::check_invariants() const {
  const Lock lock(mutex_);
  if (Status whole = engine_.check_invariants(); !whole) {
    return whole;
  }
  for (BlockId id = 0; id < engine_.space().block_slots(); ++id) {
    const Block& block = engine_.space().block(id);
    if (backing_.is_none(id) && (block.mapped || block.copies.has(Tier::kDevice))) {
      return make_error(ErrorCode::kDefect,
                        "invariant broken: block {} is on the device, and has no memory there", id);
    }
    if (block.pins == 0 && backing_.is_awaited(id)) {
      return make_error(ErrorCode::kDefect,
                        "invariant broken: launches wait for block {}, which none has pinned", id);
    }
  }
  if (Status known = recomputing_.check(); !known) {
    return known;
  }
  return launches_.check();
}

}  // namespace spillway::cuda
