// Traces replayed on a simulated machine: times worked out by hand, and every policy through a
// training step with failures, checked after every kernel.
#include "platform/sim/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/timed_run.h"
#include "policy/registry.h"
#include "trace/generate.h"

namespace spillway::sim {
namespace {

TEST(Simulator, ALaunchTakesItsTimeAndThatOfItsFaults) {
  TimedRun run(simple_machine());
  const AllocationId a = run.allocate(4);
  const AllocationId b = run.allocate(4);
  EXPECT_EQ(run.launch(a, AccessMode::kWrite), 1000 + 5000);  // one batch of zeroed blocks
  EXPECT_EQ(run.launch(a, AccessMode::kReadWrite), 5000);     // everything is there
  // a's blocks go down two transfers at a time on one stream, so their latencies overlap.
  EXPECT_EQ(run.launch(b, AccessMode::kWrite), 4 * kBlockNs + 100 + 1000 + 5000);
  EXPECT_EQ(run.simulator.engine().stats().moved(Tier::kDevice, Tier::kHost), 4 * kBlockBytes);
}

TEST(Simulator, AFetchPaysTheLinkAndTheFault) {
  TimedRun run(simple_machine());
  const AllocationId a = run.sent_away(2);
  EXPECT_EQ(run.launch(a, AccessMode::kRead), 1000 + 100 + 2 * kBlockNs + 5000);
}

TEST(Simulator, ALaunchRunsWhileItsPrefetchArrivesWhereFaultsAreReplayed) {
  for (const FaultModel model : {FaultModel::kReplayable, FaultModel::kLaunch}) {
    Machine machine = simple_machine();
    machine.faults.model = model;
    TimedRun run(machine);
    const AllocationId a = run.sent_away(1);
    const Allocation& gone = run.simulator.engine().space().allocation(a);
    run.simulator.engine().prefetch_blocks(gone.first_block, gone.block_count);
    EXPECT_EQ(run.launch(a, AccessMode::kRead),
              100 + kBlockNs + (model == FaultModel::kLaunch ? 5000 : 0));
  }
}

TEST(Simulator, SaysWhenTheProgramIsOutOfMemory) {
  Machine machine = simple_machine();
  machine.host.capacity_bytes = 0;
  BaseUvm policy;
  Simulator simulator(machine, {.engine = engine_options(machine), .failures = {}}, policy);
  for (int i = 0; i < 2; ++i) {
    const AllocationId id = simulator.allocate(4 * kBlockBytes, 0).value();
    const Allocation& allocation = simulator.engine().space().allocation(id);
    simulator.issue(
        {.position = 0, .accesses = {{id, allocation.first_block, 4, AccessMode::kWrite}}}, 0);
    const Status status = simulator.run_until_idle();
    ASSERT_EQ(status.has_value(), i == 0);
    if (i == 1) {
      EXPECT_THAT(status.error().message, testing::HasSubstr("out of memory"));
    }
  }
}

class ReplayUnder : public testing::TestWithParam<std::string> {};

TEST_P(ReplayUnder, ATrainingStepKeepsItsContentsThroughFailures) {
  const Trace trace = generate_transformer(
      {.batch_size = 32,
       .sequence = 64,
       .width = 256,
       .heads = 4,
       .layers = 3,
       .feed_forward = 1024,
       .vocabulary = 1000,
       .training = {.optimizer = Optimizer::kSgd, .element_bytes = 4, .device = {}}});
  const PolicyInfo* info = find_policy(GetParam()).value();
  Machine machine = simple_machine();
  machine.device.capacity_bytes = 40 * kMiB;
  machine.host.capacity_bytes = info->traits.uses_host ? 512 * kMiB : 0;
  machine.storage.capacity_bytes = info->traits.uses_storage ? kGiB : 0;
  machine.storage.read_bytes_per_s = 5e8;
  machine.storage.write_bytes_per_s = 4e8;
  Result<std::unique_ptr<Policy>> policy = info->make(trace, machine, {});
  while (!policy && machine.device.capacity_bytes < kGiB) {
    machine.device.capacity_bytes += 8 * kMiB;  // FlashNeuron needs its operands in one piece
    policy = info->make(trace, machine, {});
  }
  ASSERT_TRUE(policy.has_value()) << policy.error().message;
  SimulatorOptions options{.engine = engine_options(machine), .failures = {}};
  options.failures = {.transfer_fails = 0.02, .storage_write_fails = 0.02, .storage_slow = 0.02};
  options.engine.reclaim_discarded_first = info->traits.reclaims_dead_first;
  options.hold_launches = !info->traits.pages;
  Simulator simulator(machine, options, **policy);
  std::size_t kernels = 0;
  simulator.on_finished = [&](const LaunchTiming& timing) {
    ++kernels;
    EXPECT_LE(timing.issued_ns, timing.ready_ns);
    EXPECT_LE(timing.ready_ns, timing.finished_ns);
    EXPECT_GE(timing.finished_ns - timing.issued_ns, timing.duration_ns);
    const Status status = simulator.engine().check_invariants();
    ASSERT_TRUE(status.has_value()) << status.error().message;
  };
  Replay replay(trace, {.tells_deaths = info->traits.told_of_deaths, .pages = true}, simulator);
  ASSERT_TRUE(replay.prepare().has_value());
  for (int iteration = 0; iteration < 3; ++iteration) {
    const auto status = replay.run(std::array{0U});
    ASSERT_TRUE(status.has_value()) << status.error().message;
  }
  EXPECT_GE(kernels, 3 * trace.kernels.size());
  EXPECT_GT(simulator.engine().stats().failed_transfers, 0U);  // they had to move something
}

std::vector<std::string> policies() {
  std::vector<std::string> names;
  for (const PolicyInfo& info : all_policies()) {
    names.emplace_back(info.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Policies, ReplayUnder, testing::ValuesIn(policies()),
                         [](const auto& policy) { return policy.param; });

}  // namespace
}  // namespace spillway::sim
