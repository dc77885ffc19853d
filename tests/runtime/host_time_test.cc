// What the program itself needs to issue a launch, and more while not all of its memory fits, where
// blocks are handles: in the simulator, on steps that wait for nothing else.
#include <gtest/gtest.h>

#include "machine/machine.h"
#include "policy/registry.h"
#include "runtime/simulate.h"

namespace spillway {
namespace {

constexpr Bytes kTensorBytes = 64 * kMiB;
constexpr std::uint32_t kTensors = 4;
constexpr int kKernels = 100;
constexpr TimeNs kLaunchNs = 100 * kNsPerUs;

// Every tensor is used once, and one of them a hundred times.
Trace step() {
  Trace trace;
  const auto kernel = [&](TensorId id) {
    Kernel made;
    made.name = "use";
    made.duration_ns = 10 * kNsPerUs;
    made.reads = {id};
    made.writes = {id};
    trace.kernels.push_back(std::move(made));
  };
  for (TensorId id = 0; id < kTensors; ++id) {
    trace.tensors.push_back({kTensorBytes, true, false});
    kernel(id);
  }
  for (int i = 0; i < kKernels; ++i) {
    kernel(0);
  }
  return trace;
}

TimeNs iteration_ns(Bytes tensors_that_fit, TimeNs tracked_ns, bool handles = true) {
  Machine machine;
  machine.device.capacity_bytes = tensors_that_fit * kTensorBytes;
  machine.device.block_bytes = kTensorBytes / 2;
  machine.host.capacity_bytes = 4 * kGiB;
  machine.host.launch_ns = kLaunchNs;
  machine.host.tracked_ns = tracked_ns;
  machine.link.to_device_bytes_per_s = machine.link.from_device_bytes_per_s = 50e9;
  machine.faults.model = FaultModel::kLaunch;
  machine.handles.map_ns = handles ? 1 : 0;
  const Result<SimulationResult> result = simulate(
      step(), machine, **find_policy("lookahead"),
      {.policy = {}, .warm_up_iterations = 4, .iterations = 4, .queue_depth = 4, .as_run = true});
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->iteration_ns : 0;
}

TEST(HostTime, EachLaunchIsToldOfWhereNotAllFits) {
  constexpr TimeNs kToldNs = 50 * kNsPerUs;
  const TimeNs more_ns = iteration_ns(kTensors - 1, kToldNs) - iteration_ns(kTensors - 1, 0);
  // For those few that wait for a tensor it may go unnoticed.
  EXPECT_GE(more_ns, kKernels * kToldNs * 9 / 10);
  EXPECT_LE(more_ns, (kKernels + kTensors) * kToldNs);
}

TEST(HostTime, NobodyIsToldWhereAllFitsOrNothingIsAHandle) {
  constexpr TimeNs kToldNs = 50 * kNsPerUs;
  EXPECT_EQ(iteration_ns(kTensors + 2, kToldNs), iteration_ns(kTensors + 2, 0));
  EXPECT_EQ(iteration_ns(kTensors - 1, kToldNs, false), iteration_ns(kTensors - 1, 0, false));
  EXPECT_GE(iteration_ns(kTensors + 2, 0), (kKernels + kTensors) * kLaunchNs);
}

}  // namespace
}  // namespace spillway
