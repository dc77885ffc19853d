// What the current kernel and the next N protect from pre-eviction, and what goes instead.
#include "policy/correlation/expected_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/rng.h"
#include "policy/correlation_world.h"

namespace spillway {
namespace {

using testing::UnorderedElementsAreArray;

TEST(ExpectedBlocks, CurrentAndNextNKernels) {
  CorrelationWorld world(2);
  run_iteration(world, 6);
  world.launch(0);
  for (const BlockId block : {0U, 1U, 10U, 11U, 20U, 21U}) {
    EXPECT_TRUE(world.expected.expected(block)) << block;
  }
  for (const BlockId block : {30U, 41U, 51U, 5U, 1'000'000U}) {
    EXPECT_FALSE(world.expected.expected(block)) << block;
  }
  world.launch(1);
  EXPECT_FALSE(world.expected.expected(0));
  EXPECT_TRUE(world.expected.expected(30));
  EXPECT_FALSE(world.expected.expected(40));
  EXPECT_FALSE(world.expected.expected(5));
  world.fault(5);
  EXPECT_TRUE(world.expected.expected(5));
  world.launch(2);
  EXPECT_FALSE(world.expected.expected(5));
}

TEST(ExpectedBlocks, WrongPredictionExpiresWithinNLaunches) {
  CorrelationWorld world(2);
  run_iteration(world, 6);
  world.launch(0);  // 1 and 2 are predicted; 4, 5 and 0 follow instead
  world.launch(4);
  EXPECT_TRUE(world.expected.expected(20));
  world.launch(5);
  world.launch(0);
  EXPECT_FALSE(world.expected.expected(20));
}

// Figure 8: the device is full and a fault needs room. Of the resident blocks, in the order of
// their migration, those that the current kernel and the next N touch stay, however old they are.
TEST(PreEviction, Figure8TakesTheLeastRecentlyMigratedThatIsNotExpected) {
  CorrelationWorld world(1);
  run_iteration(world, 4);
  world.launch(1);  // expects 10, 11 and, N = 1 further, 20, 21
  for (const BlockId id : {10U, 11U, 20U, 21U}) {
    EXPECT_TRUE(world.expected.expected(id)) << id;
  }
  for (const BlockId id : {0U, 1U, 30U}) {
    EXPECT_FALSE(world.expected.expected(id)) << id;
  }
  world.launch(2);  // kernel 1 is over
  EXPECT_FALSE(world.expected.expected(11));
}

// The incremental set is the union of the tables in the window, on a program that repeats.
TEST(ExpectedBlocks, EqualsTheUnionOfTheWindowsTables) {
  CorrelationWorld world(3);
  Rng rng(7);
  std::vector<std::vector<BlockId>> kernels(12);
  for (std::vector<BlockId>& blocks : kernels) {
    for (int i = 0; i < 8; ++i) blocks.push_back(static_cast<BlockId>(rng.below(100)));
  }
  for (int iteration = 0; iteration < 3; ++iteration) {
    for (ExecutionId k = 0; k < 12; ++k) {
      world.run(k, iteration == 0 ? kernels[k] : std::vector<BlockId>{});
      if (iteration < 2) continue;
      std::set<BlockId> expected;
      for (std::uint32_t d = 0; d <= 3; ++d) {
        const std::vector<BlockId>& blocks = kernels[(k + d) % 12];
        expected.insert(blocks.begin(), blocks.end());
      }
      std::vector<BlockId> actual;
      for (BlockId block = 0; block < 100; ++block) {
        if (world.expected.expected(block)) actual.push_back(block);
      }
      EXPECT_THAT(actual, UnorderedElementsAreArray(expected)) << k;
    }
  }
}

}  // namespace
}  // namespace spillway
