// Machines where blocks have handles: one thread makes, maps and unmaps them, and what needs them
// waits for it. Times worked out by hand.
#include <gtest/gtest.h>

#include <utility>

#include "platform/common/gpu_sizes.h"
#include "platform/timed_run.h"

namespace spillway::sim {
namespace {

constexpr Handles kCosts{
    .create_ns = 10'000, .release_ns = 20'000, .map_ns = 300, .map_wait_ns = 7'000, .unmap_ns = 50};
constexpr TimeNs kMadeNs = 10'000 + 300;  // made and mapped
constexpr TimeNs kRunsNs = 5'000;         // what each launch takes

Machine with_handles() {
  Machine machine = simple_machine();
  machine.faults = {.model = FaultModel::kLaunch, .latency_ns = 0};
  machine.handles = kCosts;
  return machine;
}

TEST(SimulatedHandles, AreMadeAndMappedOneAfterTheOther) {
  TimedRun run(with_handles());
  const AllocationId a = run.allocate(4);
  EXPECT_EQ(run.launch(a, AccessMode::kWrite), 4 * kMadeNs + kRunsNs);
  EXPECT_EQ(run.launch(a, AccessMode::kReadWrite), kRunsNs);
  EXPECT_EQ(run.simulator.handles().made(), 4U);
}

TEST(SimulatedHandles, CostTheSameHoweverLargeTheyAre) {
  TimedRun run(with_handles());
  EXPECT_EQ(run.launch(run.allocate(4, 4 * kBlockBytes), AccessMode::kWrite), kMadeNs + kRunsNs);
}

TEST(SimulatedHandles, AreUsedAgainByBlocksOfTheirSize) {
  TimedRun run(with_handles());
  const AllocationId a = run.allocate(4);
  const AllocationId b = run.allocate(4);
  run.launch(a, AccessMode::kWrite);
  run.simulator.free(a);
  EXPECT_EQ(run.launch(b, AccessMode::kWrite), 4 * (50 + 300) + kRunsNs);
}

TEST(SimulatedHandles, AreReleasedForBlocksOfAnotherSize) {
  TimedRun run(with_handles());
  const AllocationId a = run.allocate(4, 4 * kBlockBytes);
  const AllocationId b = run.allocate(4);
  run.launch(a, AccessMode::kWrite);
  run.simulator.free(a);
  EXPECT_EQ(run.launch(b, AccessMode::kWrite), 50 + 20'000 + 4 * kMadeNs + kRunsNs);
}

// A batch of one block; the next one's handle is ordered when it has come.
TEST(SimulatedHandles, AreThereBeforeATransferBegins) {
  TimedRun run(with_handles());
  const AllocationId a = run.sent_away(2);
  EXPECT_EQ(run.launch(a, AccessMode::kRead), 4 * 50 + 2 * (300 + 100 + kBlockNs) + kRunsNs);
}

TEST(SimulatedHandles, AreMappedSideBySideWithTransfersOfOtherBatches) {
  Machine machine = with_handles();
  machine.faults.batches_in_flight = 2;
  TimedRun run(machine);
  const AllocationId a = run.sent_away(2);
  EXPECT_EQ(run.launch(a, AccessMode::kRead), 4 * 50 + 300 + 100 + 2 * kBlockNs + kRunsNs);
}

TEST(SimulatedHandles, AreMappedOnlyAfterTheCopyOutOrTheLongestWait) {
  for (const TimeNs longest_ns : {TimeNs{0}, TimeNs{7'000}, 10 * kBlockNs}) {
    Machine machine = with_handles();
    machine.handles.map_wait_ns = longest_ns;
    TimedRun run(machine);
    const AllocationId a = run.allocate(1);
    const AllocationId b = run.allocate(1);
    run.launch(a, AccessMode::kWrite);
    const Allocation& leaves = run.simulator.engine().space().allocation(a);
    run.simulator.engine().pre_evict_blocks(leaves.first_block, 1, Tier::kHost);
    ASSERT_TRUE(run.simulator.run_until(run.simulator.now_ns() + 100 + 40).has_value());
    const TimeNs out_ns = kBlockNs - 40;  // until the copy has ended
    EXPECT_EQ(run.launch(b, AccessMode::kWrite), kMadeNs + std::min(out_ns, longest_ns) + kRunsNs);
  }
}

// The engine that copies in clears what has been released, and does half of each meanwhile.
TEST(SimulatedHandles, AreClearedWhenTheyAreReleasedWhichCopiesInFeel) {
  const TimeNs before_copy_ns = 20'000 + kMadeNs + 100;  // since the release was begun
  for (const auto& [cleared_ns, copy_ns] :
       {std::pair{TimeNs{1'000}, kBlockNs},
        std::pair{before_copy_ns + kBlockNs, kBlockNs + kBlockNs / 2},
        std::pair{before_copy_ns + 10 * kBlockNs, 2 * kBlockNs}}) {
    Machine machine = with_handles();
    machine.handles.clear_bytes_per_s = 4.0 * kBlockBytes / static_cast<double>(cleared_ns) * 1e9;
    TimedRun run(machine);
    const AllocationId away = run.sent_away(1);
    const AllocationId large = run.allocate(4, 4 * kBlockBytes);
    run.launch(large, AccessMode::kWrite);
    run.simulator.free(large);
    // What made way for it has been cleared by then.
    ASSERT_TRUE(run.simulator.run_until(run.simulator.now_ns() + 2 * cleared_ns).has_value());
    EXPECT_NEAR(static_cast<double>(run.launch(away, AccessMode::kRead)),
                static_cast<double>(before_copy_ns + copy_ns + kRunsNs), 2);
  }
}

// Of two that are on order the first: the copy concerns neither.
TEST(SimulatedHandles, HoldUpACopyOutForTheCallThatIsBeingMade) {
  for (const bool busy : {false, true}) {
    TimedRun run(with_handles());
    const AllocationId a = run.allocate(1);
    const AllocationId b = run.allocate(2);
    run.launch(a, AccessMode::kWrite);
    const Space& space = run.simulator.engine().space();
    const TimeNs start_ns = run.simulator.now_ns();
    if (busy) {
      run.simulator.issue(
          {.position = 0,
           .accesses = {{b, space.allocation(b).first_block, 2, AccessMode::kWrite}}},
          0);
    }
    run.simulator.engine().pre_evict_blocks(space.allocation(a).first_block, 1, Tier::kHost);
    while (run.simulator.engine().stats().moved(Tier::kDevice, Tier::kHost) == 0) {
      ASSERT_TRUE(run.simulator.step());
    }
    EXPECT_EQ(run.simulator.now_ns() - start_ns, (busy ? kMadeNs : 0) + 100 + kBlockNs);
  }
}

TEST(SimulatedHandles, BlocksAreAPartOfTheDevice) {
  Machine machine = with_handles();
  machine.device.block_bytes = 64 * kMiB;
  EXPECT_EQ(block_bytes(machine), kBlockBytes);
  machine.device.capacity_bytes = 100 * kMiB;
  EXPECT_EQ(block_bytes(machine), 12 * kMiB);
  machine.device.capacity_bytes = kGiB;
  EXPECT_EQ(block_bytes(machine), 64 * kMiB);
  machine.device.block_bytes = 128 * kMiB;
  EXPECT_EQ(block_bytes(machine), 64 * kMiB);
  machine.device.capacity_bytes = 8 * kGiB - kBlockBytes;
  EXPECT_EQ(block_bytes(machine), 64 * kMiB);
  machine.device.capacity_bytes = 8 * kGiB;
  EXPECT_EQ(block_bytes(machine), 128 * kMiB);
  EXPECT_EQ(copied_at_once_bytes(block_bytes(machine)), 64 * kMiB);
  EXPECT_EQ(largest_block_of_run(8 * kGiB, kGiB, false), 128 * kMiB);
  EXPECT_EQ(largest_block_of_run(8 * kGiB, kGiB, true), 64 * kMiB);
  EXPECT_EQ(largest_block_of_run(8 * kGiB, kGiB - 1, false), 64 * kMiB);
  EXPECT_EQ(pinned_piece_of_run(kGiB, 128 * kMiB), 128 * kMiB);
  EXPECT_EQ(pinned_piece_of_run(kGiB, 2 * kMiB), 64 * kMiB);
  EXPECT_EQ(pinned_piece_of_run(100 * kMiB, 2 * kMiB), 12 * kMiB);
  EXPECT_EQ(pinned_piece_of_run(0, 2 * kMiB), 2 * kMiB);
  machine.device.block_bytes = kBlockBytes;
  EXPECT_EQ(block_bytes(machine), kBlockBytes);
}

}  // namespace
}  // namespace spillway::sim
