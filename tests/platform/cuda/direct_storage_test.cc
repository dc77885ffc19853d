// Direct storage on the fake libcufile: what is moved directly, what is not, and what becomes of
// transfers that fail.
#include "platform/cuda/direct_world.h"

namespace spillway::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(DirectStorageOnFakes, WhatGoesBetweenDeviceAndFileIsNeverInHostMemory) {
  open_direct();
  rewrite_all();
  EXPECT_GT(moved(Tier::kDevice, Tier::kStorage), 0U);
  EXPECT_GT(moved(Tier::kStorage, Tier::kDevice), 0U);
  EXPECT_EQ(seen().write_bytes, moved(Tier::kDevice, Tier::kStorage) + kTrialBytes);
  EXPECT_EQ(seen().read_bytes, moved(Tier::kStorage, Tier::kDevice) + kTrialBytes);
  EXPECT_EQ(counters().copied_in_bytes, 2 * kTrialBytes);
  EXPECT_EQ(counters().copied_out_bytes, kTrialBytes);
  EXPECT_EQ(platform->stats().copied_bytes, 0U);
}

TEST_F(DirectStorageOnFakes, ItIsCountedLikeOtherUseOfTheFile) {
  open_direct();
  rewrite_all();
  const ProgramStats stats = platform->stats();
  EXPECT_EQ(stats.io_bytes[0], moved(Tier::kStorage, Tier::kDevice));
  EXPECT_EQ(stats.io_bytes[1], moved(Tier::kDevice, Tier::kStorage));
  EXPECT_GT(stats.io_busy_ns[0], 0);
  EXPECT_EQ(count("direct_read"), seen().reads - 1);
  EXPECT_EQ(count("direct_write"), seen().writes - 1);
  EXPECT_EQ(count("direct_refused"), 0U);
}

TEST_F(DirectStorageOnFakes, FromHostMemoryBlocksStillGoToTheFileAsBefore) {
  options.host_bytes = 8 * kMiB;
  open_direct();
  rewrite_all();
  EXPECT_GT(moved(Tier::kDevice, Tier::kHost), 0U);
  EXPECT_GT(moved(Tier::kHost, Tier::kDevice), 0U);
  EXPECT_GT(count("direct_read") + count("direct_write"), 0U);
}

TEST_F(DirectStorageOnFakes, HandlesAreMadeForTheDiskToReach) {
  open_direct();
  Buffer buffer = allocate(6 * kMiB);
  const CuStream on = stream();
  fill(on, buffer, 1);
  synchronize(on);
  EXPECT_EQ(fake_cuda_is_for_rdma(buffer.address), 1);
}

TEST_F(DirectStorageOnFakes, HandlesAreNotMadeForTheDiskWithoutDirectStorage) {
  files.control = kCuFileAllowsCompatibility;
  open_direct();
  Buffer buffer = allocate(6 * kMiB);
  const CuStream on = stream();
  fill(on, buffer, 1);
  synchronize(on);
  EXPECT_EQ(fake_cuda_is_for_rdma(buffer.address), 0);
}

TEST_F(DirectStorageOnFakes, WithoutASwapFileNothingIsOpened) {
  fake_cufile_reset(&files);
  options.host_bytes = 64 * kMiB;
  open();
  EXPECT_EQ(seen().handles, 0U);
}

TEST_F(DirectStorageOnFakes, TheDriverIsOpenedOnceInAProcess) {
  open_direct();
  platform.reset();
  fake_cufile_reset(&files);
  open(base_uvm, 64 * kMiB);
  EXPECT_EQ(seen().opens, 0U);
  EXPECT_EQ(seen().handles, 1U);
}

TEST_F(DirectStorageOnFakes, WhatIsRefusedGoesThroughHostMemoryAndIsSaidOnce) {
  files.refused = 0.4;
  open_direct();
  rewrite_all();
  EXPECT_GT(seen().refused, 1U);
  EXPECT_GT(seen().writes, 1U);
  EXPECT_EQ(count("direct_refused"), seen().refused);
  EXPECT_EQ(platform->stats().engine.failed_transfers, 0U);
  EXPECT_GT(counters().copied_out_bytes, kTrialBytes);
  ASSERT_THAT(warned, SizeIs(1));
  EXPECT_THAT(warned[0], HasSubstr("error 5008; what it refuses goes through host memory"));
}

TEST_F(DirectStorageOnFakes, WhatComesShortIsMovedAgainThroughHostMemory) {
  files.too_short = 0.4;
  open_direct();
  rewrite_all();
  EXPECT_GT(seen().too_short, 1U);
  EXPECT_EQ(platform->stats().engine.failed_transfers, 0U);
  ASSERT_THAT(warned, SizeIs(1));
  EXPECT_THAT(warned[0], HasSubstr("bytes were moved"));
}

TEST_F(DirectStorageOnFakes, AllOfItRefusedIsSlowAndRight) {
  files.refused = 1;
  open_direct();
  rewrite_all();
  EXPECT_EQ(seen().writes, 1U);
  EXPECT_GE(counters().copied_out_bytes, moved(Tier::kDevice, Tier::kStorage));
  EXPECT_THAT(warned, SizeIs(1));
}

TEST_F(DirectStorageOnFakes, ErrorsOfTheDiskAreFailedTransfersAndNoContentsAreLost) {
  files.fails = 0.2;
  open_direct();
  rewrite_all();
  EXPECT_GT(seen().failed, 0U);
  EXPECT_EQ(platform->stats().engine.failed_transfers, seen().failed);
  EXPECT_THAT(warned, IsEmpty());
}

TEST_F(DirectStorageOnFakes, ADiskThatHasBrokenEndsTheRunWithItsError) {
  files.fails = 1;
  open_direct();
  const CuStream on = stream();
  for (int i = 0; i < 4; ++i) {
    buffers.push_back(allocate(6 * kMiB));
    fill(on, buffers.back(), 1);
  }
  ASSERT_TRUE(soon([&] {
    const std::scoped_lock lock(said_mutex);
    return !fatal.empty();
  }));
  EXPECT_THAT(fatal[0], HasSubstr("cannot write 6291456 bytes at offset"));
  EXPECT_THAT(fatal[0], HasSubstr("Input/output error"));
  fatal.clear();
  platform.reset();
  fake_cuda_reset(&config);
  take_violations();
}

// The fake driver reports what is unmapped under a transfer.
TEST_F(DirectStorageOnFakes, MemoryStaysWhereItIsUnderSlowTransfers) {
  options.device_bytes = 16 * kMiB;
  files.slow_ns = 3'000'000;
  open_direct();
  const CuStream on = stream();
  for (std::uint64_t round = 1; round <= 3; ++round) {
    for (int i = 0; i < 8; ++i) {
      Buffer buffer = allocate((1 + static_cast<Bytes>(i) % 3) * 2 * kMiB);
      fill(on, buffer, round);
      rewrite(on, buffer, round + 1);
      buffers.push_back(buffer);
    }
    for (Buffer& buffer : buffers) {
      platform->free(buffer.address);
    }
    buffers.clear();
    ASSERT_TRUE(platform->set_device_capacity((round % 2 == 0 ? 16 : 12) * kMiB));
  }
  rewrite_all(2);
}

// What is refused goes through host memory, where the first copy costs the context its life.
TEST_F(DirectStorageOnFakes, ALostContextTakesNoMemoryFromTransfersUnderWay) {
  files.refused = 0.5;
  files.seed = 3;  // the fourth is refused first
  open_direct();
  files.slow_ns = 300'000'000;
  fake_cufile_change(&files);
  config.copy_breaks = 1;
  fake_cuda_change(&config);
  const auto under_way = [] {
    return seen().begun - seen().refused - seen().reads - seen().writes;
  };
  const CuStream on = stream();
  for (int i = 0; i < 5; ++i) {
    // The last one needs the room of all others at once.
    buffers.push_back(allocate((i < 4 ? 2 : 8) * kMiB));
    fill(on, buffers.back(), 1);
  }
  ASSERT_TRUE(soon([&] {
    const std::scoped_lock lock(said_mutex);
    return !fatal.empty();
  }));
  EXPECT_GT(under_way(), 0U);
  EXPECT_THAT(fatal[0], HasSubstr("before data is lost"));
  fatal.clear();
  platform.reset();
  EXPECT_EQ(under_way(), 0U);
  for (const int kind : take_violations()) {
    EXPECT_NE(kind, FAKE_CUDA_TAKEN_WHILE_RUNNING);
  }
  warned.clear();
  fake_cuda_reset(&config);
  take_violations();
}

}  // namespace
}  // namespace spillway::cuda
