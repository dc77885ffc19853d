#include "platform/host/host_platform.h"

#include <utility>

#include "base/mutex.h"
#include "platform/common/platform_engine.h"
#include "platform/common/process/clock.h"

namespace spillway::host {

Result<std::unique_ptr<HostPlatform>> HostPlatform::create(const HostOptions& options,
                                                           std::optional<SwapFile> storage,
                                                           Policy& policy) {
  if (const Status enough = check_budget(options.device_bytes); !enough) {
    return tl::unexpected<Error>(enough.error());
  }
  Result<HostState::Taken> taken = HostState::take(options, storage ? storage->bytes() : 0);
  if (!taken) {
    return tl::unexpected<Error>(taken.error());
  }
  return std::unique_ptr<HostPlatform>(
      new HostPlatform(options, std::move(storage), policy, std::move(*taken)));
}

HostPlatform::HostPlatform(const HostOptions& options, std::optional<SwapFile> storage,
                           Policy& policy, HostState::Taken taken)
    : mechanism_(state_, progress_),
      state_(options, std::move(storage), policy, mechanism_, std::move(taken)),
      correlator_(state_, progress_) {
  mechanism_.start();
  forks_ =
      std::make_unique<ForkServer>(ForkServer::Parent{.mutex = state_.mutex,
                                                      .userfault = state_.userfault,
                                                      .addresses = state_.addresses,
                                                      .pages = state_.pages,
                                                      .places = state_.places,
                                                      .host_memory = state_.host_memory.start(),
                                                      .storage = state_.storage_io(),
                                                      .staging = state_.staging,
                                                      .failures = state_.failures,
                                                      .warn = state_.options.warn});
  process_ = std::make_unique<HostProcess>(state_, correlator_, *forks_);
  reader_ = std::make_unique<FaultReader>(state_.userfault, state_.addresses, *forks_,
                                          correlator_.waker());
  correlator_.start(*reader_, mechanism_.workers());
}

HostPlatform::~HostPlatform() {
  correlator_.stop();
  reader_.reset();
  wait_until_idle();  // nothing begins any more
  process_.reset();
  forks_.reset();
  mechanism_.stop();
}

Result<void*> HostPlatform::allocate(Bytes bytes, Fresh fresh) {
  const MutexLock lock(state_.mutex);
  return state_.memory.allocate(bytes, bytes, fresh);
}

Result<void*> HostPlatform::allocate_with_room(Bytes bytes, Bytes most_bytes, Fresh fresh) {
  const MutexLock lock(state_.mutex);
  return state_.memory.allocate(bytes, most_bytes, fresh);
}

Status HostPlatform::grow(void* start, Bytes bytes) {
  const MutexLock lock(state_.mutex);
  return state_.memory.grow(start, bytes);
}

void HostPlatform::free(void* start) {
  const MutexLock lock(state_.mutex);
  state_.memory.free(start);
}

void HostPlatform::retire(void* start) {
  const MutexLock lock(state_.mutex);
  state_.memory.retire(start);
}

Status HostPlatform::reuse(void* start) {
  const MutexLock lock(state_.mutex);
  return state_.memory.reuse(start);
}

Status HostPlatform::reuse_first(void* start, Bytes bytes) {
  const MutexLock lock(state_.mutex);
  return state_.memory.reuse_first(start, bytes);
}

bool HostPlatform::addresses_had_better_repeat() const {
  const MutexLock lock(state_.mutex);
  return state_.memory.addresses_had_better_repeat();
}

bool HostPlatform::ready_for_reuse(const void* start, Bytes bytes) const {
  const MutexLock lock(state_.mutex);
  return state_.memory.ready_for_reuse(start, bytes);
}

void HostPlatform::provide(void* start) {
  const MutexLock lock(state_.mutex);
  state_.memory.provide(start);
}

void HostPlatform::discard(void* start, Bytes bytes, DiscardMode mode) {
  const MutexLock lock(state_.mutex);
  state_.memory.discard(start, bytes, mode);
}

void HostPlatform::clear(void* start, Bytes bytes) {
  const MutexLock lock(state_.mutex);
  state_.memory.clear(start, bytes, state_.mutex, state_.idle);
}

void HostPlatform::give_up(void* start, Bytes bytes) {
  const MutexLock lock(state_.mutex);
  state_.memory.give_up(start, bytes, state_.mutex, state_.idle);
}

void HostPlatform::prefetch(void* start, Bytes bytes) {
  const MutexLock lock(state_.mutex);
  state_.memory.prefetch(start, bytes);
}

void HostPlatform::pre_evict(void* start, Bytes bytes, Tier to) {
  const MutexLock lock(state_.mutex);
  state_.memory.pre_evict(start, bytes, to);
}

Bytes HostPlatform::size_of(const void* start) const {
  const MutexLock lock(state_.mutex);
  return state_.memory.size_of(start);
}

LaunchId HostPlatform::begin_launch(std::string_view name, std::span<const ProgramOperand> operands,
                                    const std::function<void()>& in_line) {
  const MutexLock lock(state_.mutex);
  return state_.launches.begin(name, operands, in_line, state_.mutex);
}

void HostPlatform::end_launch(LaunchId launch) {
  const MutexLock lock(state_.mutex);
  state_.engine.end_launch(launch);
}

std::optional<UpdateId> HostPlatform::begin_update(std::span<const ProgramOperand> operands) {
  const MutexLock lock(state_.mutex);
  return state_.updates.begin(operands);
}

std::vector<Extents> HostPlatform::update_extents(UpdateId update) {
  const MutexLock lock(state_.mutex);
  return state_.updates.extents(update, state_.mutex);
}

void HostPlatform::end_update(UpdateId update) {
  const MutexLock lock(state_.mutex);
  state_.updates.end(update);
  state_.idle.notify_all();
}

LaunchFit HostPlatform::fit(std::span<const ProgramOperand> operands) const {
  const MutexLock lock(state_.mutex);
  return state_.launches.fit(operands);
}

void HostPlatform::mark_launch(LaunchHash hash, std::string_view name, bool tells_all) {
  if (state_.launches.mark(hash, name, tells_all)) {
    correlator_.wake();
  }
}

void HostPlatform::mark_access(const void* start, Bytes bytes, bool writes) {
  state_.launches.mark_access(start, bytes, writes);
}

void HostPlatform::begin_recording() {
  const MutexLock lock(state_.mutex);
  state_.launches.take_marks();
  state_.log.begin_recording();
}

std::optional<RecordedIteration> HostPlatform::end_recording() {
  const MutexLock lock(state_.mutex);
  state_.launches.take_marks();
  return state_.log.end_recording(now_ns(), state_.stalls.ended_stalls_ns());
}

void HostPlatform::log_events(EventLog* events) {
  const MutexLock lock(state_.mutex);
  state_.log.set_events(events);
}

void HostPlatform::change_policy(const std::function<void()>& change) {
  const MutexLock lock(state_.mutex);
  change();
}

Status HostPlatform::set_device_capacity(Bytes bytes) {
  const MutexLock lock(state_.mutex);
  Status changed = check_budget(bytes);
  if (changed) {
    changed = state_.engine.set_device_capacity(bytes);
  }
  state_.pages.set_capacity(state_.engine.frugal_bytes());
  return changed;
}

ProgramStats HostPlatform::stats() const {
  const MutexLock lock(state_.mutex);
  ProgramStats stats = stats_of(state_.engine, state_.memory.commitment(), state_.storage);
  stats.frames_peak_bytes = state_.memory.frames_peak_bytes();
  stats.page_faults = state_.threads.page_faults();
  stats.write_faults = state_.threads.write_faults();
  stats.stalled_ns = state_.stalls.total_ns();
  stats.fault_wait_ns = state_.threads.waited_ns() + state_.launches.waited_ns();
  stats.copy_ns = mechanism_.workers().copy_ns();
  stats.copied_bytes = mechanism_.workers().copied_bytes();
  stats.processor_ns = mechanism_.workers().processor_ns() + forks_->processor_ns() +
                       reader_->processor_ns() + correlator_.processor_ns();
  return stats;
}

std::vector<LaunchWaits> HostPlatform::waits() const {
  const MutexLock lock(state_.mutex);
  return state_.log.longest_waits();
}

Bytes HostPlatform::capacity_bytes(Tier tier) const {
  const MutexLock lock(state_.mutex);
  return state_.engine.capacity_bytes(tier);
}

void HostPlatform::wait_until_idle() {
  const MutexLock lock(state_.mutex);
  state_.wait_for_transfers();
}

Status HostPlatform::check_invariants() const {
  const MutexLock lock(state_.mutex);
  return state_.engine.check_invariants();
}

}  // namespace spillway::host
