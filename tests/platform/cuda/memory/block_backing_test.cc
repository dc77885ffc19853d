// Blocks that have their memory, and launches that wait for it.
#include "platform/cuda/memory/block_backing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "platform/cuda/memory/freed_runs.h"

namespace spillway::cuda {
namespace {

TEST(BlockBacking, ABlockThatNobodyHasNamedHasNoMemory) {
  const BlockBacking backing;
  EXPECT_TRUE(backing.is_none(1'000));
  EXPECT_FALSE(backing.is_there(1'000));
  EXPECT_FALSE(backing.is_awaited(1'000));
  EXPECT_FALSE(backing.is_kept(1'000));
}

TEST(BlockBacking, LaunchesWaitUntilItIsThere) {
  BlockBacking backing;
  backing.comes_with_transfer(3);
  EXPECT_TRUE(backing.is_coming(3));
  backing.wait(3, 10);
  backing.wait(3, 11);
  EXPECT_TRUE(backing.is_awaited(3));
  EXPECT_THAT(backing.arrived(3), testing::ElementsAre(10, 11));
  EXPECT_TRUE(backing.is_there(3));
  EXPECT_FALSE(backing.is_awaited(3));
  EXPECT_TRUE(backing.drop(3));
  EXPECT_FALSE(backing.drop(3));
}

// The driver thread carries out an order of a block that has been dropped, and ordered again,
// since.
TEST(BlockBacking, OnlyTheLastOrderCounts) {
  BlockBacking backing;
  const std::uint64_t first = backing.order(5);
  EXPECT_TRUE(backing.is_ordered(5, first));
  EXPECT_FALSE(backing.drop(5));
  EXPECT_FALSE(backing.is_ordered(5, first));
  const std::uint64_t second = backing.order(5);
  EXPECT_FALSE(backing.is_ordered(5, first));
  EXPECT_TRUE(backing.is_ordered(5, second));
  backing.comes_with_transfer(5);
  EXPECT_FALSE(backing.is_ordered(5, second));
}

TEST(BlockBacking, WhatIsKeptMappedIsTakenBackOnce) {
  BlockBacking backing;
  backing.keep_mapped(2);
  EXPECT_TRUE(backing.is_kept(2));
  EXPECT_TRUE(backing.end_kept(2));
  EXPECT_FALSE(backing.end_kept(2));
}

TEST(FreedRuns, ARunEndsWithTheLastOfItsMappedBlocks) {
  FreedRuns runs;
  const std::vector<BlockId> mapped{4, 6};
  runs.add({.address = 0x1000, .bytes = 3 * kBlockBytes, .first_block = 4, .block_count = 3},
           mapped);
  const std::vector<BlockId> other{9};
  runs.add({.address = 0x9000, .bytes = kBlockBytes, .first_block = 9, .block_count = 1}, other);
  EXPECT_FALSE(runs.has(5));
  EXPECT_FALSE(runs.drop(5).has_value());  // it had no memory when the run was freed
  EXPECT_FALSE(runs.drop(6).has_value());
  EXPECT_FALSE(runs.has(6));
  const auto ended = runs.drop(4);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->address, 0x1000U);
  const auto last = runs.drop(9);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->address, 0x9000U);
}

}  // namespace
}  // namespace spillway::cuda
