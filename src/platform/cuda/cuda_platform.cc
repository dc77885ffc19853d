// Making a platform, its budget, and what it says of itself. See cuda_platform.h.
#include "platform/cuda/cuda_platform.h"

#include <utility>

#include "platform/common/platform_engine.h"
#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"

namespace spillway::cuda {
namespace {

using Lock = PlatformLock;

Status check_budget(Bytes bytes) {
  if (bytes < kSmallestBudgetBytes) {
    return make_error(ErrorCode::kInvalidInput, "a device memory of {} is too small; at least {}",
                      format_bytes(bytes), format_bytes(kSmallestBudgetBytes));
  }
  return {};
}

Status check_options(const Driver& driver, const CudaOptions& options) {
  if (Status fine = check_budget(options.device_bytes); !fine) {
    return fine;
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

struct CudaPlatform::Inside {
  Inside(const Driver& driver, const CudaOptions& options, std::optional<SwapFile> storage,
         Policy& policy)
      : mechanism(state, parts),
        state(driver, options, std::move(storage), policy, mechanism),
        parts(state, mechanism) {
    CommandQueue::Options queue{
        .device = state.options.device,
        .budget_bytes = state.options.device_bytes,
        .largest_block_bytes = state.options.block_bytes,
        .storage = state.storage ? &*state.storage : nullptr,
        .link = state.options.link,
        .direct = {.place = state.options.cufile, .warn = state.options.warn}};
    if (state.options.memory_room) {
      queue.spare_bytes = [this] { return state.options.memory_room().to_take_bytes(); };
    }
    state.queue = std::make_unique<CommandQueue>(state.driver, queue, state.failures, mechanism);
  }

  // The engine and the queue call it as long as they live.
  CudaMechanism mechanism;
  PlatformState state;
  PlatformParts parts;
};

Result<std::unique_ptr<CudaPlatform>> CudaPlatform::create(const Driver& driver,
                                                           const CudaOptions& options,
                                                           std::optional<SwapFile> storage,
                                                           Policy& policy) {
  if (const Status fine = check_options(driver, options); !fine) {
    return tl::unexpected<Error>(fine.error());
  }
  auto inside = std::make_unique<Inside>(driver, options, std::move(storage), policy);
  std::unique_ptr<CudaPlatform> platform(new CudaPlatform(std::move(inside)));
  if (const Status started = platform->inside_->state.queue->start(); !started) {
    return tl::unexpected<Error>(started.error());
  }
  return platform;
}

CudaPlatform::CudaPlatform(std::unique_ptr<Inside> inside)
    : inside_(std::move(inside)),
      memory_(inside_->parts.allocations),
      placed_(inside_->parts.placed),
      exports_(inside_->parts.exports),
      launches_(inside_->parts.issue),
      streams_(inside_->parts.streams),
      bypass_(inside_->parts.bypass),
      recompute_(inside_->parts.recompute),
      updates_(inside_->parts.updates),
      hints_(inside_->parts.hints) {}

CudaPlatform::~CudaPlatform() {
  PlatformState& state = inside_->state;
  {
    const Lock lock(state);
    state.bypass.leave();
    inside_->parts.waits.wait_until([&]() SPILLWAY_REQUIRES(platform_lock) {
      return state.launches.in_flight() == 0 && inside_->parts.updates.under_way().any() == 0;
    });
  }
  state.queue->stop();
  // What has told the queue of a request's end may not have returned from doing so.
  state.storage.reset();
}

// --- Budget and state ---------------------------------------------------------------------------

Status CudaPlatform::set_device_capacity(Bytes bytes) {
  if (Status fine = check_budget(bytes); !fine) {
    return fine;
  }
  PlatformState& state = inside_->state;
  const Lock lock(state);
  state.bypass.leave();
  const bool more = bytes > state.budget_bytes;
  const auto tell_pool = [&](Bytes budget_bytes) {
    state.queue->push({.kind = DriverCommand::Kind::kBudget, .bytes = budget_bytes});
  };
  if (more) {
    tell_pool(bytes);  // before what the engine will order with it
  }
  // Launches that were issued before and need more may still be on their way.
  const std::vector<std::uint64_t> before = state.launches.issued_by_stream();
  Status changed;
  inside_->parts.waits.wait_until([&]() SPILLWAY_REQUIRES(platform_lock) {
    changed = state.engine.set_device_capacity(bytes);
    return changed.has_value() || state.launches.have_ended(before);
  });
  if (changed) {
    state.budget_bytes = bytes;
  }
  if (changed.has_value() != more) {
    tell_pool(state.budget_bytes);
  }
  inside_->parts.host.set_limits();
  inside_->parts.host.want_host();
  return changed;
}

ProgramStats CudaPlatform::stats() const {
  const PlatformState& state = inside_->state;
  const Lock lock(state);
  ProgramStats stats = stats_of(state.engine, state.memory->commitment(), state.storage);
  stats.engine.launches += state.bypass.calls().calls();
  stats.stalled_ns = state.stalls.total_ns();
  stats.fault_wait_ns = state.stalls.total_ns();
  stats.copied_bytes = state.queue->copied_bytes();
  stats.processor_ns = state.queue->processor_ns();
  return stats;
}

std::vector<LaunchWaits> CudaPlatform::waits() const {
  const Lock lock(inside_->state);
  return inside_->state.log.longest_waits();
}

std::vector<CudaPlatform::Work> CudaPlatform::work() const {
  const PlatformState& state = inside_->state;
  const Lock lock(state);
  std::vector<Work> all;
  for (std::size_t i = 0; i < WorkTimes::kCount; ++i) {
    const auto what = static_cast<WorkTimes::What>(i);
    all.push_back({.name = WorkTimes::kNames[i],
                   .count = state.queue->times().count(what),
                   .time_ns = state.queue->times().time_ns(what)});
  }
  const DeviceLaunches::Waited& waited = state.launches.waited();
  all.push_back(
      {.name = "stalled_unreleased", .count = waited.count, .time_ns = waited.unreleased_ns});
  all.push_back({.name = "stalled_unmapped", .count = waited.count, .time_ns = waited.unmapped_ns});
  all.push_back({.name = "unseen",
                 .count = state.bypass.calls().calls() - state.bypass.looked_at(),
                 .time_ns = 0});
  all.push_back({.name = "looked_at", .count = state.bypass.looked_at(), .time_ns = 0});
  all.push_back({.name = "told", .count = state.engine.stats().launches, .time_ns = 0});
  return all;
}

void CudaPlatform::log_events(EventLog* events) {
  PlatformState& state = inside_->state;
  const Lock lock(state);
  state.bypass.leave();  // which could tell of nothing
  state.log.set_events(events);
}

Bytes CudaPlatform::capacity_bytes(Tier tier) const {
  const PlatformState& state = inside_->state;
  const Lock lock(state);
  if (tier == Tier::kDevice) {
    return state.budget_bytes;
  }
  return tier == Tier::kHost
             ? inside_->parts.host.budget().limit_bytes(state.engine.host_mapped_bytes())
             : state.engine.capacity_bytes(tier);
}

void CudaPlatform::wait_until_idle() {
  const PlatformState& state = inside_->state;
  const Lock lock(state);
  inside_->parts.waits.wait_until([&]() SPILLWAY_REQUIRES(platform_lock) {
    return state.engine.transfers_in_flight() == 0 && state.queue->empty() &&
           state.launches.waiting() == 0 && !inside_->parts.updates.under_way().some_wait();
  });
}

Status CudaPlatform::check_invariants() const {
  const PlatformState& state = inside_->state;
  const Lock lock(state);
  if (Status whole = state.engine.check_invariants(); !whole) {
    return whole;
  }
  for (BlockId id = 0; id < state.engine.space().block_slots(); ++id) {
    const Block& block = state.engine.space().block(id);
    if (state.backing.is_none(id) && (block.mapped || block.copies.has(Tier::kDevice))) {
      return make_error(ErrorCode::kDefect,
                        "invariant broken: block {} is on the device, and has no memory there", id);
    }
    if (block.pins == 0 && state.backing.is_awaited(id)) {
      return make_error(ErrorCode::kDefect,
                        "invariant broken: launches wait for block {}, which none has pinned", id);
    }
  }
  if (Status known = state.recomputing.check(); !known) {
    return known;
  }
  return state.launches.check();
}

}  // namespace spillway::cuda
