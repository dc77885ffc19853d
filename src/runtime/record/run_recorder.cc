// See run_recorder.h.
#include "runtime/record/run_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "platform/common/process/clock.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"
#include "runtime/record/module_waits.h"
#include "runtime/report/fits_in.h"
#include "runtime/report/whole_file.h"
#include "runtime/run/refused.h"

namespace spillway {
namespace {

constexpr std::chrono::milliseconds kSampleEvery{100};
constexpr std::size_t kWaitsMax = 10;

std::vector<RunWait> first_of(const std::vector<LaunchWaits>& waits) {
  std::vector<RunWait> first;
  for (std::size_t i = 0; i < std::min(waits.size(), kWaitsMax); ++i) {
    first.push_back({.name = waits[i].name,
                     .launches = waits[i].launches,
                     .blocks = waits[i].blocks,
                     .wait_s = to_seconds(waits[i].wait_ns),
                     .host_s = to_seconds(waits[i].host_ns),
                     .storage_s = to_seconds(waits[i].storage_ns),
                     .fresh_s = to_seconds(waits[i].fresh_ns)});
  }
  return first;
}

RunSample sample_of(const RunRecord& record) {
  return {.at_s = record.times.elapsed_s,
          .used_bytes = record.memory.used_bytes,
          .live_bytes = record.memory.live_bytes,
          .moved_bytes = record.moves.bytes,
          .page_faults = record.work.page_faults,
          .stalled_s = record.times.stalled_s};
}

}  // namespace

RunRecorder::RunRecorder(ProgramSpace& space, std::string live_file)
    : RunRecorder({.platform = space.platform(),
                   .policy = space.options().policy,
                   .plan_report = [&space] { return space.plan_report(); },
                   .complete =
                       [&space](RunRecord& record) {
                         record.moves.asked_prefetch_bytes = space.asked_prefetch_bytes();
                         record.moves.asked_pre_evict_bytes = space.asked_pre_evict_bytes();
                       }},
                  std::move(live_file)) {}

RunRecorder::RunRecorder(RunSubject subject, std::string live_file)
    : subject_(std::move(subject)),
      live_file_(std::move(live_file)),
      start_ns_(now_ns()),
      memory_([limits = MemoryLimits()] { return limits.room(); }, say) {
  if (std::getenv("SPILLWAY_TRACE_EVENTS") != nullptr) {
    events_ = std::make_unique<EventLog>();
    subject_.platform.log_events(events_.get());
  }
  thread_ = service_thread("spw-record", [this] { sample_until_stopped(); });
}

RunRecorder::~RunRecorder() {
  if (events_ != nullptr) {
    subject_.platform.log_events(nullptr);
  }
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

// Whole or not at all: who reads it does not wait for us. Of two threads the one that has looked
// first may come last.
void RunRecorder::show(const RunRecord& record) {
  const MutexLock lock(show_mutex_);
  if (record.times.elapsed_s < shown_s_) {
    return;
  }
  shown_s_ = record.times.elapsed_s;
  const std::string draft = live_file_ + ".new";
  if (!live_file_.empty() && write_whole_file(draft, to_json(record))) {
    ::rename(draft.c_str(), live_file_.c_str());
  }
}

void RunRecorder::sample_until_stopped() {
  constexpr unsigned kSamplesASecond = 10;
  unsigned samples = 0;
  MutexLock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    const bool new_second = samples++ % kSamplesASecond == 0;
    if (new_second && subject_.each_second) {
      subject_.each_second();
    }
    const RunRecord now = so_far();
    if (new_second) {
      memory_.look(now.memory.used_bytes[index_of(Tier::kHost)]);
    }
    show(now);
    lock.lock();
    samples_.add(sample_of(now));
    mutex_.wait_for(wake_, kSampleEvery, [&]() SPILLWAY_REQUIRES(mutex_) { return stop_; });
  }
}

RunRecord RunRecorder::so_far() {
  const ObservedPlatform& platform = subject_.platform;
  const ProgramStats stats = platform.stats();
  const EngineStats& engine = stats.engine;
  RunRecord record;
  record.pid = static_cast<std::uint64_t>(::getpid());
  record.policy = subject_.policy;
  record.times.elapsed_s = to_seconds(now_ns() - start_ns_);
  for (const Tier tier : kRecordTiers) {
    record.memory.budget_bytes[index_of(tier)] = platform.capacity_bytes(tier);
  }
  record.memory.peak_bytes = stats.live_peak_bytes;
  record.memory.fits_in_bytes = fits_in_bytes(stats.frames_peak_bytes);
  record.memory.used_bytes = stats.used_bytes;
  record.memory.live_bytes = stats.live_bytes;
  const Refused refused = refused_so_far();
  record.memory.refused_allocations = refused.allocations;
  record.memory.refused_largest_bytes = refused.largest_bytes;
  record.work.page_faults = stats.page_faults;
  record.work.write_faults = stats.write_faults;
  record.work.launches = engine.launches;
  record.work.updates = engine.updates;
  record.prefetches.blocks = engine.prefetched;
  record.prefetches.used = engine.prefetches_used;
  record.prefetches.late = engine.late_prefetches;
  record.prefetches.wasted = engine.prefetches_wasted;
  record.moves.evictions = engine.evictions;
  record.moves.pre_evictions = engine.pre_evictions;
  record.moves.bytes = engine.moved_bytes;
  record.moves.saved_by_discard_bytes = engine.saved_by_discard_bytes;
  record.moves.given_up_bytes = engine.given_up_bytes;
  record.moves.host_mapped_bytes = engine.host_mapped_bytes;
  record.times.stalled_s = to_seconds(stats.stalled_ns);
  record.times.fault_wait_s = to_seconds(stats.fault_wait_ns);
  record.times.copy_s = to_seconds(stats.copy_ns);
  record.times.processor_s = to_seconds(stats.processor_ns);
  if (subject_.plan_report) {
    record.plan = subject_.plan_report();
  }
  if (subject_.complete) {
    subject_.complete(record);
  }
  return record;
}

RunRecord RunRecorder::finish(const std::string& command) {
  RunRecord record = so_far();
  show(record);
  record.command = command;
  const std::vector<LaunchWaits> waits = subject_.platform.waits();
  record.longest_waits = first_of(waits);
  record.waits_by_module = first_of(waits_by_module(waits));
  {
    const MutexLock lock(mutex_);
    record.timeline = samples_.all();
  }
  // Samples are thinned out in long runs, and the last of them may be far from the end.
  record.timeline.push_back(sample_of(record));
  return record;
}

}  // namespace spillway
