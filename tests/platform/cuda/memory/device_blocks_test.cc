// Handles and the blocks that they back, on the fake driver.
#include "platform/cuda/memory/device_blocks.h"

#include "platform/cuda/fake_device.h"
#include "platform/cuda/memory/handle_pool.h"

namespace spillway::cuda {
namespace {

class Handles : public FakeDevice {
 protected:
  CuMemHandle take(HandlePool& pool, Bytes bytes) {
    CuMemHandle handle = 0;
    EXPECT_EQ(pool.take(bytes, handle), CuResult::kSuccess);
    return handle;
  }
};

TEST_F(Handles, WhatABlockLeavesServesTheNextOfItsSize) {
  HandlePool pool(driver, 0, 16 * kMiB);
  const CuMemHandle first = take(pool, 4 * kMiB);
  pool.give_back(first, 4 * kMiB);
  EXPECT_EQ(take(pool, 4 * kMiB), first);
  EXPECT_EQ(counters().creates, 1U);
  EXPECT_EQ(pool.bytes(), 4 * kMiB);
  pool.give_back(first, 4 * kMiB);
  EXPECT_EQ(pool.release_free(), CuResult::kSuccess);
  EXPECT_EQ(counters().handles, 0U);
}

TEST_F(Handles, OtherSizesAreMadeOfWhatIsFreeOldestFirst) {
  HandlePool pool(driver, 0, 16 * kMiB);
  std::vector<CuMemHandle> small;
  for (int i = 0; i < 8; ++i) {
    small.push_back(take(pool, kBlockBytes));
  }
  CuMemHandle none = 0;
  EXPECT_EQ(pool.take(kBlockBytes, none), CuResult::kOutOfMemory);
  for (const CuMemHandle handle : small) {
    pool.give_back(handle, kBlockBytes);
  }
  const CuMemHandle large = take(pool, 8 * kMiB);
  EXPECT_EQ(pool.bytes(), 16 * kMiB);
  EXPECT_EQ(counters().handles, 5U);
  EXPECT_EQ(take(pool, kBlockBytes), small.back());  // those that were freed first are gone
  EXPECT_LE(counters().peak_handle_bytes, 16 * kMiB);
  pool.give_back(large, 8 * kMiB);
  pool.give_back(small.back(), kBlockBytes);
  EXPECT_EQ(pool.release_free(), CuResult::kSuccess);
}

TEST_F(Handles, ASmallerBudgetIsReachedAsHandlesComeBack) {
  HandlePool pool(driver, 0, 16 * kMiB);
  const CuMemHandle first = take(pool, 8 * kMiB);
  const CuMemHandle second = take(pool, 8 * kMiB);
  pool.set_budget(8 * kMiB);
  EXPECT_EQ(pool.bytes(), 16 * kMiB);
  pool.give_back(first, 8 * kMiB);
  EXPECT_EQ(pool.bytes(), 8 * kMiB);
  CuMemHandle none = 0;
  EXPECT_EQ(pool.take(kBlockBytes, none), CuResult::kOutOfMemory);
  pool.give_back(second, 8 * kMiB);
  EXPECT_EQ(pool.peak_bytes(), 16 * kMiB);
  EXPECT_EQ(pool.release_free(), CuResult::kSuccess);
}

TEST_F(Handles, ADeviceWithoutRoomTakesFreeOnesOfOtherSizes) {
  config.device_bytes = 8 * kMiB;
  start();
  HandlePool pool(driver, 0, 64 * kMiB);
  const CuMemHandle small = take(pool, 4 * kMiB);
  pool.give_back(small, 4 * kMiB);
  const CuMemHandle large = take(pool, 8 * kMiB);
  CuMemHandle none = 0;
  EXPECT_EQ(pool.take(kBlockBytes, none), CuResult::kOutOfMemory);
  EXPECT_EQ(pool.bytes(), 8 * kMiB);
  pool.give_back(large, 8 * kMiB);
  EXPECT_EQ(pool.release_free(), CuResult::kSuccess);
}

TEST_F(Handles, BlocksAreMappedWithAccessAndGiveTheirHandlesBack) {
  HandlePool pool(driver, 0, 8 * kMiB);
  HostHandles on_host(driver, 0, pool.times());
  DeviceBlocks blocks(driver, pool, on_host, 0);
  const CuAddress at = reserve(64 * kMiB);
  EXPECT_FALSE(blocks.has(5));
  ASSERT_EQ(blocks.back(5, at + 4 * kMiB, 4 * kMiB), CuResult::kSuccess);
  ASSERT_EQ(blocks.back(5, at + 4 * kMiB, 4 * kMiB), CuResult::kSuccess);  // it has one
  EXPECT_TRUE(blocks.has(5));
  test::words_at(at + 4 * kMiB)[0] = 42;
  ASSERT_EQ(blocks.back(6, at, 4 * kMiB), CuResult::kSuccess);
  EXPECT_EQ(blocks.back(7, at + 32 * kMiB, kBlockBytes), CuResult::kOutOfMemory);
  EXPECT_FALSE(blocks.has(7));
  EXPECT_EQ(blocks.drop(5), CuResult::kSuccess);
  EXPECT_EQ(blocks.drop(5), CuResult::kSuccess);
  ASSERT_EQ(blocks.back(7, at + 32 * kMiB, 4 * kMiB), CuResult::kSuccess);
  EXPECT_EQ(test::words_at(at + 32 * kMiB)[0], 42U);  // the same handle
  EXPECT_EQ(counters().mappings, 2U);
  EXPECT_EQ(blocks.drop_all(), CuResult::kSuccess);
  EXPECT_EQ(pool.release_free(), CuResult::kSuccess);
  EXPECT_EQ(counters().handles + counters().mappings, 0U);
}

// A program that needs them in every step pays for them in the first.
TEST_F(Handles, OfHostMemoryAreKeptUpToWhatWasUsedAtOnce) {
  WorkTimes times;
  HostHandles on_host(driver, 0, times);
  const auto take_all = [&](std::vector<Bytes> sizes) {
    std::vector<CuMemHandle> handles(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(on_host.take(sizes[i], handles[i]), CuResult::kSuccess);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(on_host.give_back(handles[i], sizes[i]), CuResult::kSuccess);
    }
  };
  take_all({4 * kMiB, 8 * kMiB, 4 * kMiB});
  take_all({8 * kMiB, 4 * kMiB, 4 * kMiB});
  EXPECT_EQ(counters().creates, 3U);
  EXPECT_EQ(counters().host_handle_bytes, 16 * kMiB);
  take_all({6 * kMiB});  // in place of the oldest
  EXPECT_EQ(counters().creates, 4U);
  EXPECT_LE(counters().host_handle_bytes, 16 * kMiB);
  take_all({6 * kMiB});
  EXPECT_EQ(counters().creates, 4U);
  EXPECT_EQ(on_host.release_free(), CuResult::kSuccess);
  EXPECT_EQ(counters().handles + counters().host_handle_bytes, 0U);
}

TEST_F(Handles, ABlockOnHostMemoryLeavesItToTheNext) {
  HandlePool pool(driver, 0, 2 * kMiB);
  HostHandles on_host(driver, 0, pool.times());
  DeviceBlocks blocks(driver, pool, on_host, 0);
  const CuAddress at = reserve(64 * kMiB);
  ASSERT_EQ(blocks.back_on_host(1, at, 4 * kMiB), CuResult::kSuccess);
  EXPECT_FALSE(blocks.keep_mapped(1));
  EXPECT_EQ(blocks.drop(1), CuResult::kSuccess);
  ASSERT_EQ(blocks.back_on_host(2, at + 8 * kMiB, 4 * kMiB), CuResult::kSuccess);
  EXPECT_EQ(counters().creates, 1U);
  EXPECT_EQ(counters().mappings, 1U);
  EXPECT_EQ(blocks.drop_all(), CuResult::kSuccess);
  EXPECT_EQ(on_host.release_free(), CuResult::kSuccess);
  EXPECT_EQ(counters().handles + counters().mappings, 0U);
}

}  // namespace
}  // namespace spillway::cuda
