// See run_record.h.
#include "runtime/host/run_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "platform/common/clock.h"
#include "platform/common/service_thread.h"

namespace spillway {
namespace {

constexpr std::chrono::milliseconds kSampleEvery{100};
constexpr std::size_t kSamplesMax = 2000;
constexpr std::size_t kWaitsMax = 10;

nlohmann::json moved_json(const std::array<std::array<Bytes, kTierCount>, kTierCount>& moved) {
  const auto between = [&](Tier from, Tier to) { return moved[index_of(from)][index_of(to)]; };
  return {{"host_to_device", between(Tier::kHost, Tier::kDevice)},
          {"device_to_host", between(Tier::kDevice, Tier::kHost)},
          {"storage_to_device", between(Tier::kStorage, Tier::kDevice)},
          {"device_to_storage", between(Tier::kDevice, Tier::kStorage)},
          {"host_to_storage", between(Tier::kHost, Tier::kStorage)}};
}

nlohmann::json tiers_json(const std::array<Bytes, kTierCount>& bytes) {
  return {{"device", bytes[0]}, {"host", bytes[1]}, {"storage", bytes[2]}};
}

nlohmann::json sample_json(const RunSample& sample) {
  return {{"at_s", sample.at_s},
          {"used_bytes", tiers_json(sample.used_bytes)},
          {"live_bytes", sample.live_bytes},
          {"moved_bytes", moved_json(sample.moved_bytes)},
          {"page_faults", sample.page_faults},
          {"stalled_s", sample.stalled_s}};
}

nlohmann::json budget_json(const ProgramPlatform& platform) {
  return tiers_json({platform.capacity_bytes(Tier::kDevice), platform.capacity_bytes(Tier::kHost),
                     platform.capacity_bytes(Tier::kStorage)});
}

nlohmann::json wait_json(const LaunchWaits& wait) {
  return {{"name", wait.name},
          {"launches", wait.launches},
          {"blocks", wait.blocks},
          {"wait_s", to_seconds(wait.wait_ns)},
          {"for_host_memory_s", to_seconds(wait.host_ns)},
          {"for_storage_s", to_seconds(wait.storage_ns)},
          {"for_new_memory_s", to_seconds(wait.fresh_ns)}};
}

nlohmann::json plan_json(const PlanReport& plan) {
  return {{"number", plan.number},
          {"launches", plan.launches},
          {"tensors", plan.tensors},
          {"peak_bytes", plan.peak_bytes},
          {"to_host_bytes", plan.to_host_bytes},
          {"to_storage_bytes", plan.to_storage_bytes},
          {"computation_s", to_seconds(plan.computation_ns)},
          {"estimated_s", to_seconds(plan.estimated_ns)},
          {"error", plan.error}};
}

}  // namespace

RunRecorder::RunRecorder(HostSpace& space, std::string live_file)
    : space_(space), live_file_(std::move(live_file)), start_ns_(now_ns()) {
  thread_ = service_thread("spw-record", [this] { sample_until_stopped(); });
}

RunRecorder::~RunRecorder() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

RunSample RunRecorder::sample() {
  const ProgramStats stats = space_.platform().stats();
  return {.at_s = to_seconds(now_ns() - start_ns_),
          .used_bytes = stats.used_bytes,
          .live_bytes = stats.live_bytes,
          .moved_bytes = stats.engine.moved_bytes,
          .page_faults = stats.page_faults,
          .stalled_s = to_seconds(stats.stalled_ns)};
}

// However long the run is, the record stays small: when it is full, every second sample goes.
void RunRecorder::keep(const RunSample& sample) {
  if (moments_++ % every_ != 0) {
    return;
  }
  samples_.push_back(sample);
  if (samples_.size() < kSamplesMax) {
    return;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < samples_.size(); i += 2) {
    samples_[kept++] = samples_[i];
  }
  samples_.resize(kept);
  every_ *= 2;
}

void RunRecorder::sample_until_stopped() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    const RunSample now = sample();
    if (!live_file_.empty()) {
      nlohmann::json live = sample_json(now);
      live["budget_bytes"] = budget_json(space_.platform());
      const std::string text = live.dump();
      const std::string draft = live_file_ + ".new";
      const int fd = ::open(draft.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
      if (fd >= 0) {
        const bool whole =
            ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
        ::close(fd);
        if (whole) {
          ::rename(draft.c_str(), live_file_.c_str());
        }
      }
    }
    lock.lock();
    keep(now);
    wake_.wait_for(lock, kSampleEvery, [&] { return stop_; });
  }
}

std::string RunRecorder::finish(const std::string& command) {
  const ProgramStats stats = space_.platform().stats();
  const HostSpaceOptions& options = space_.options();
  ProgramPlatform& platform = space_.platform();
  nlohmann::json record{{"version", 1},
                        {"command", command},
                        {"pid", ::getpid()},
                        {"policy", options.policy},
                        {"budget_bytes", budget_json(platform)},
                        {"elapsed_s", to_seconds(now_ns() - start_ns_)},
                        {"peak_bytes", stats.live_peak_bytes},
                        {"used_bytes", tiers_json(stats.used_bytes)},
                        {"page_faults", stats.page_faults},
                        {"write_faults", stats.write_faults},
                        {"launches", stats.engine.launches},
                        {"prefetched_blocks", stats.engine.prefetched},
                        {"prefetches_late", stats.engine.late_prefetches},
                        {"prefetches_used", stats.engine.prefetches_used},
                        {"prefetches_wasted", stats.engine.prefetches_wasted},
                        {"evictions", stats.engine.evictions},
                        {"moved_bytes", moved_json(stats.engine.moved_bytes)},
                        {"saved_by_discard_bytes", stats.engine.saved_by_discard_bytes},
                        {"stalled_s", to_seconds(stats.stalled_ns)},
                        {"fault_wait_s", to_seconds(stats.fault_wait_ns)},
                        {"copy_s", to_seconds(stats.copy_ns)},
                        {"processor_s", to_seconds(stats.processor_ns)},
                        {"longest_waits", nlohmann::json::array()},
                        {"timeline", nlohmann::json::array()}};
  if (const std::optional<PlanReport> plan = space_.plan_report()) {
    record["plan"] = plan_json(*plan);
  }
  const std::vector<LaunchWaits> waits = platform.waits();
  for (std::size_t i = 0; i < std::min(waits.size(), kWaitsMax); ++i) {
    record["longest_waits"].push_back(wait_json(waits[i]));
  }
  const std::scoped_lock lock(mutex_);
  for (const RunSample& one : samples_) {
    record["timeline"].push_back(sample_json(one));
  }
  // Names come from the program and may hold anything.
  return record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace spillway
