// See program_plan.h.
#include "runtime/run/program_plan.h"

#include <algorithm>

#include "analysis/memory_curve.h"
#include "analysis/vitality.h"
#include "machine/machine.h"
#include "policy/profiled.h"
#include "runtime/record/measured_rate.h"

namespace spillway {
namespace {

constexpr Bytes kEnoughMovedBytes = 64 * kMiB;
constexpr double kAssumedCopyBytesPerS = 4e9;
constexpr TimeNs kFaultNs = 50'000;
// Of the device, what a plan leaves for blocks under way, and where launches do not name all that
// they use for the rest of that.
constexpr Bytes kUnderWay = 4 * kMiB;
constexpr Bytes kUnderWayPart = 128;
constexpr Bytes kUnknown = 16 * kMiB;
constexpr Bytes kUnknownPart = 32;

Bytes unplanned_bytes(Bytes device_bytes, bool complete) {
  const Bytes wanted =
      complete ? kUnderWay + device_bytes / kUnderWayPart : kUnknown + device_bytes / kUnknownPart;
  return std::min(device_bytes / 4, wanted);
}

Machine machine_of(const ProgramPlatform& platform, const LinkSpeed& speed, bool complete) {
  const ProgramStats stats = platform.stats();
  Machine machine;
  machine.name = "this machine";
  const Bytes device_bytes = platform.capacity_bytes(Tier::kDevice);
  machine.device.capacity_bytes = device_bytes - unplanned_bytes(device_bytes, complete);
  machine.host.capacity_bytes = platform.capacity_bytes(Tier::kHost);
  const double link = speed.carries(measured_bytes_per_s(stats.copied_bytes, stats.copy_ns,
                                                         kEnoughMovedBytes, kAssumedCopyBytesPerS));
  machine.link.to_device_bytes_per_s = link;
  machine.link.from_device_bytes_per_s = link;
  machine.faults.latency_ns = kFaultNs + speed.fault_latency_ns;
  machine.storage.capacity_bytes = platform.capacity_bytes(Tier::kStorage);
  machine.storage.read_bytes_per_s = measured_bytes_per_s(
      stats.io_bytes[0], stats.io_busy_ns[0], kEnoughMovedBytes, kAssumedStorageBytesPerS);
  machine.storage.write_bytes_per_s = measured_bytes_per_s(
      stats.io_bytes[1], stats.io_busy_ns[1], kEnoughMovedBytes, kAssumedStorageBytesPerS);
  return machine;
}

}  // namespace

ProgramPlan plan_for_program(const PolicyInfo& info, const RecordedIteration& iteration,
                             const ProgramPlatform& platform, const LinkSpeed& link,
                             const PolicyOptions& options) {
  const Trace& trace = iteration.trace;
  ProgramPlan made;
  made.report.launches = trace.kernels.size();
  made.report.tensors = trace.tensors.size();
  for (const Kernel& kernel : trace.kernels) {
    made.report.computation_ns += kernel.duration_ns;
  }
  made.report.peak_bytes = memory_curve(trace, analyze_vitality(trace)).peak_live_bytes;
  Result<Plan> plan =
      info.plan(with_room_ahead(trace), machine_of(platform, link, iteration.complete), options);
  if (!plan) {
    made.report.error = plan.error().message;
    return made;
  }
  made.report.to_host_bytes = plan->to_host_bytes;
  made.report.to_storage_bytes = plan->to_storage_bytes;
  made.report.estimated_ns = plan->estimated_ns;
  made.plan = std::move(*plan);
  return made;
}

}  // namespace spillway
