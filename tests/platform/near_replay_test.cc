// A trace's optimizer at the host, on the device and on both: times worked out by hand, and every
// policy with its contents checked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "platform/sim/replay.h"
#include "platform/timed_run.h"
#include "policy/registry.h"

namespace spillway::sim {
namespace {

constexpr std::uint32_t kParameters = 6;

// Parameters of a block each: a forward kernel for each, a backward kernel for each in the opposite
// order, and one kernel that updates all of them.
Trace training_step(TimeNs kernel_ns) {
  Trace trace;
  Kernel fused;
  fused.name = "multi_tensor_apply_kernel<FusedAdam>";
  fused.duration_ns = kernel_ns;
  for (int list = 0; list < 4; ++list) {
    for (std::uint32_t i = 0; i < kParameters; ++i) {
      const auto id = static_cast<TensorId>(trace.tensors.size());
      trace.tensors.push_back({.bytes = kBlockBytes, .persistent = list != 1});
      fused.reads.push_back(id);
      if (list != 1) {
        fused.writes.push_back(id);
      }
    }
  }
  for (TensorId id = 0; id < kParameters; ++id) {
    trace.kernels.push_back(
        {.name = "forward", .duration_ns = kernel_ns, .reads = {id}, .writes = {}});
  }
  for (TensorId id = kParameters; id-- > 0;) {
    trace.kernels.push_back({.name = "backward",
                             .duration_ns = kernel_ns,
                             .reads = {id},
                             .writes = {id + kParameters}});
  }
  trace.kernels.push_back(std::move(fused));
  return trace;
}

class NearReplay : public testing::Test {
 protected:
  struct Ran {
    TimeNs iteration_ns = 0;
    EngineStats stats;
    std::uint64_t updates = 0;  // of all six iterations
  };
  static Ran run(const Machine& machine, const PolicyInfo& info, NearOptimizer near,
                 std::uint32_t queue_depth, TimeNs kernel_ns = 1000) {
    const Trace trace = training_step(kernel_ns);
    Result<std::unique_ptr<Policy>> policy = info.make(trace, machine, {});
    EXPECT_TRUE(policy.has_value());
    Simulator simulator(machine, simulator_options(machine, info.traits), **policy);
    Replay replay(trace,
                  {.tells_deaths = info.traits.told_of_deaths,
                   .queue_depth = queue_depth,
                   .near_optimizer = near,
                   .update_bytes_per_s = machine.host.update_bytes_per_s()},
                  simulator);
    EXPECT_TRUE(replay.prepare().has_value());
    const std::array<std::uint32_t, 6> graphs{};
    const Result<std::vector<IterationResult>> results = replay.run(graphs);
    EXPECT_TRUE(results.has_value()) << results.error().message;
    const Status sound = simulator.engine().check_invariants();
    EXPECT_TRUE(sound.has_value()) << sound.error().message;
    return {((*results)[5].ended_ns - (*results)[2].ended_ns) / 3,
            difference((*results)[5].stats, (*results)[2].stats),
            simulator.engine().stats().updates};
  }
  // As many blocks on the device as parameters and gradients need, so that states have to leave.
  static Machine machine(double host_bytes_per_s) {
    Machine made = simple_machine();
    made.device.capacity_bytes = 14 * kBlockBytes;
    made.host.memory_bytes_per_s = host_bytes_per_s;
    return made;
  }
  static const PolicyInfo& lookahead() { return **find_policy("lookahead"); }
};

TEST_F(NearReplay, OffIsAsRecorded) {
  const Ran off = run(machine(1e9), lookahead(), NearOptimizer::kOff, 8);
  EXPECT_EQ(off.updates, 0U);
}

// Seven blocks through host memory for each parameter, at 1 byte/ns, are what takes longest.
TEST_F(NearReplay, OneHostUpdatesOneAfterTheOther) {
  const Ran on = run(machine(1e9), lookahead(), NearOptimizer::kOn, 8);
  EXPECT_EQ(on.updates, 6 * kParameters);
  const auto computed_ns = static_cast<TimeNs>(kParameters * 7 * kBlockBytes);
  EXPECT_GE(on.iteration_ns, computed_ns);
  EXPECT_LE(on.iteration_ns, computed_ns * 11 / 10 + 4 * kBlockNs);
}

// The states stay below: a parameter goes up, a gradient and a parameter go down.
TEST_F(NearReplay, AFastHostIsBoundByTheLinkAlone) {
  const Ran on = run(machine(1e12), lookahead(), NearOptimizer::kOn, 8);
  EXPECT_EQ(on.stats.moved(Tier::kHost, Tier::kDevice), 3 * kParameters * kBlockBytes);
  EXPECT_LE(on.stats.moved(Tier::kDevice, Tier::kHost), 3 * 2 * kParameters * kBlockBytes);
  const Ran off = run(machine(1e12), lookahead(), NearOptimizer::kOff, 8);
  EXPECT_GT(off.stats.moved(Tier::kHost, Tier::kDevice),
            on.stats.moved(Tier::kHost, Tier::kDevice));
  EXPECT_LT(on.iteration_ns, off.iteration_ns);
}

// Neither side has to do everything: both at once are no slower than either, but for the order in
// which a kernel that does not fit goes through its operands.
TEST_F(NearReplay, AutoIsNoSlowerThanEitherSide) {
  for (const double host_bytes_per_s : {1e8, 3e9, 5e9, 1e12}) {
    const Machine made = machine(host_bytes_per_s);
    const TimeNs off_ns = run(made, lookahead(), NearOptimizer::kOff, 8).iteration_ns;
    const TimeNs on_ns = run(made, lookahead(), NearOptimizer::kOn, 8).iteration_ns;
    const TimeNs auto_ns = run(made, lookahead(), NearOptimizer::kAuto, 8).iteration_ns;
    EXPECT_LE(auto_ns, std::min(off_ns, on_ns) * 12 / 10)
        << host_bytes_per_s << ": off " << off_ns << ", on " << on_ns;
  }
}

TEST_F(NearReplay, EveryPolicyKeepsTheContents) {
  for (const PolicyInfo& info : all_policies()) {
    Machine made = machine(3e9);
    made.storage = {.capacity_bytes = kGiB, .read_bytes_per_s = 5e8, .write_bytes_per_s = 4e8};
    made.host.capacity_bytes = (info.traits.uses_storage ? 8 : 64) * kBlockBytes;
    // Without paging the recorded kernel needs all of its operands at once.
    made.device.capacity_bytes = (info.traits.pages ? 28 : 64) * kBlockBytes;
    for (const NearOptimizer near : {NearOptimizer::kOn, NearOptimizer::kAuto}) {
      for (const std::uint32_t queue_depth : {0U, 8U}) {
        const Ran ran = run(made, info, near, queue_depth);
        const bool at_host = info.traits.uses_host && near == NearOptimizer::kOn;
        EXPECT_EQ(ran.updates, at_host ? 6 * kParameters : ran.updates) << info.name;
      }
    }
  }
}

}  // namespace
}  // namespace spillway::sim
