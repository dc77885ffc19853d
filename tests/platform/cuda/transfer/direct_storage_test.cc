// Direct storage on the fake libcufile: what is moved directly, what is not, and what becomes of
// transfers that fail.
#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "platform/common/process/descriptor.h"
#include "platform/cuda/direct_world.h"

namespace spillway::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class BrokenDisk : public BlockIo {
 public:
  void submit(IoRequest request) override { request.done(EIO); }
};

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
  // Host memory is pinned beside it, whenever it gets to that.
  for (int tries = 0; tries < 50 && moved(Tier::kHost, Tier::kDevice) == 0; ++tries) {
    rewrite_all(1);
  }
  EXPECT_GT(moved(Tier::kDevice, Tier::kHost), 0U);
  EXPECT_GT(moved(Tier::kHost, Tier::kDevice), 0U);
  EXPECT_GT(count("direct_read") + count("direct_write"), 0U);
}

TEST_F(DirectStorageOnFakes, HandlesAreMadeForTheDiskToReach) {
  open_direct();
  EXPECT_EQ(disk_may_reach_handles(), 1);
}

TEST_F(DirectStorageOnFakes, HandlesAreNotMadeForTheDiskWithoutDirectStorage) {
  files.control = kCuFileAllowsCompatibility;
  open_direct();
  EXPECT_EQ(disk_may_reach_handles(), 0);
}

// Its descriptor says for ever that it was made so, and libcufile refuses such descriptors.
TEST_F(DirectStorageOnFakes, AFileThatNeverHadANameIsReachedDirectly) {
  const Descriptor unnamed(::open(".", O_TMPFILE | O_RDWR, 0600));
  if (unnamed.get() < 0) {
    GTEST_SKIP() << "this file system has none";
  }
  open_direct();
  CuFileDescription description{};
  description.type = kCuFileDescriptor;
  description.file.descriptor = unnamed.get();
  CuFileHandle refused = nullptr;
  const Result<CuFile> calls = open_cufile(options.cufile);
  ASSERT_TRUE(calls) << calls.error().message;
  EXPECT_EQ(calls->handle_register(&refused, &description).error, 5019);
  rewrite_all(1);
  EXPECT_GT(count("direct_write"), 0U);
  EXPECT_EQ(count("direct_refused"), 0U);
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

// Whatever libcufile says of the disk, staging sees for itself.
TEST_F(DirectStorageOnFakes, WhatFailsWithAnErrorIsMovedAgainThroughHostMemory) {
  for (const int error : {EIO, EBADF, ENOSPC}) {
    SCOPED_TRACE(error);
    files.fails = 0.4;
    files.fails_with = error;
    open_direct();
    rewrite_all();
    EXPECT_GT(seen().failed, 0U);
    EXPECT_EQ(count("direct_refused"), seen().failed);
    EXPECT_EQ(platform->stats().engine.failed_transfers, 0U);
    ASSERT_THAT(warned, SizeIs(1));
    EXPECT_THAT(warned[0], HasSubstr(std::strerror(error)));
    warned.clear();
    buffers.clear();
    platform.reset();
  }
}

TEST_F(DirectStorageOnFakes, AfterEightRefusalsInARowItIsNotTriedAnyMore) {
  files.refused = 1;
  open_direct();
  const std::uint64_t pinned_before = counters().pinned_bytes;
  rewrite_all();
  EXPECT_GE(seen().refused, 8U);
  EXPECT_LE(seen().refused, 16U);  // some had begun
  EXPECT_EQ(counters().pinned_bytes, pinned_before + 3 * options.block_bytes);
  const std::uint64_t refused = seen().refused;
  files.refused = 0;
  fake_cufile_change(&files);
  rewrite_all();
  EXPECT_EQ(seen().refused, refused);
  EXPECT_EQ(count("direct_read") + count("direct_write"), 0U);
}

TEST_F(DirectStorageOnFakes, RefusalsThatAreNotInARowDoNotEndIt) {
  files.refused = 0.5;
  open_direct();
  rewrite_all(4);
  EXPECT_GT(seen().refused, 16U);
  EXPECT_GT(seen().writes, 1U);
}

TEST_F(DirectStorageOnFakes, ADiskThatHasBrokenEndsTheRunWithItsError) {
  options.wrap_io = [](std::unique_ptr<BlockIo>) { return std::make_unique<BrokenDisk>(); };
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
  warned.clear();
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
      platform->memory().free(buffer.address);
    }
    buffers.clear();
    ASSERT_TRUE(platform->set_device_capacity((round % 2 == 0 ? 16 : 12) * kMiB));
  }
  rewrite_all(2);
}

// What is refused goes through host memory, where the first copy costs the context its life.
TEST_F(DirectStorageOnFakes, ALostContextTakesNoMemoryFromTransfersUnderWay) {
  files.refused = 1;
  files.spared = 3;  // the trial's two, and one that is held
  open_direct();
  files.held = 1;
  fake_cufile_change(&files);
  config.copy_breaks = 1;
  fake_cuda_change(&config);
  const auto under_way = [this] {
    return seen().begun - seen().refused - seen().reads - seen().writes;
  };
  const CuStream on = stream();
  for (int i = 0; i < 5; ++i) {
    // The last one needs the room of all others at once.
    buffers.push_back(allocate((i < 4 ? 2 : 8) * kMiB));
    fill(on, buffers.back(), 1);
  }
  const bool broke = soon([&] {
    const std::scoped_lock lock(said_mutex);
    return !fatal.empty();
  });
  const std::uint64_t held = under_way();
  std::thread release([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the platform ends meanwhile
    files.held = 0;
    fake_cufile_change(&files);
  });
  platform.reset();
  release.join();
  ASSERT_TRUE(broke);
  EXPECT_EQ(held, 1U);
  EXPECT_THAT(fatal[0], HasSubstr("before data is lost"));
  fatal.clear();
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
