// See device_planner.h.
#include "runtime/cuda/device_planner.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"
#include "runtime/record/measured_rate.h"

namespace spillway {
namespace {

constexpr Bytes kEnoughCopiedBytes = 256 * kMiB;
constexpr double kAssumedLinkBytesPerS = 20e9;
// Of the device, what a plan leaves for blocks under way and for what is too small to be planned.
constexpr Bytes kUnplannedPart = 16;

}  // namespace

Machine machine_of(const cuda::CudaPlatform& platform, const LinkSpeed& link) {
  const ProgramStats stats = platform.stats();
  TimeNs in_ns = 0;
  TimeNs out_ns = 0;
  for (const cuda::CudaPlatform::Work& work : platform.work()) {
    in_ns = work.name == "link_in" ? work.time_ns : in_ns;
    out_ns = work.name == "link_out" ? work.time_ns : out_ns;
  }
  Machine machine;
  machine.name = "this device";
  const Bytes device_bytes = platform.capacity_bytes(Tier::kDevice);
  machine.device.capacity_bytes = device_bytes - device_bytes / kUnplannedPart;
  machine.host.capacity_bytes = platform.capacity_bytes(Tier::kHost);
  machine.link.to_device_bytes_per_s =
      link.carries(measured_bytes_per_s(stats.engine.moved(Tier::kHost, Tier::kDevice), in_ns,
                                        kEnoughCopiedBytes, kAssumedLinkBytesPerS));
  machine.link.from_device_bytes_per_s =
      link.carries(measured_bytes_per_s(stats.engine.moved(Tier::kDevice, Tier::kHost), out_ns,
                                        kEnoughCopiedBytes, kAssumedLinkBytesPerS));
  machine.storage.capacity_bytes = platform.capacity_bytes(Tier::kStorage);
  machine.storage.read_bytes_per_s = kAssumedStorageBytesPerS;
  machine.storage.write_bytes_per_s = kAssumedStorageBytesPerS;
  return machine;
}

void DevicePlanner::ask(Trace iteration) {
  finish();
  thread_ = service_thread("spw-plan",
                           [this, iteration = std::move(iteration)] { make_plan(iteration); });
}

void DevicePlanner::make_plan(const Trace& iteration) {
  Result<Plan> plan = info_.plan(iteration, machine_of(*platform_, link_), options_);
  if (!plan) {
    say(fmt::format("no plan for this program under {}: {}", info_.name, plan.error().message));
    return;
  }
  const MutexLock lock(mutex_);
  plan_ = std::move(*plan);
}

std::optional<Plan> DevicePlanner::take() {
  const MutexLock lock(mutex_);
  return std::exchange(plan_, std::nullopt);
}

void DevicePlanner::finish() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace spillway
