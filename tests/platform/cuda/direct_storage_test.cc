// Direct storage on the fake libcufile: what is moved directly, what is not, how it is found out
// that it had better not be used, and what becomes of transfers that fail.
#include <dlfcn.h>

#include <cerrno>
#include <filesystem>

#include "platform/cuda/cuda_world.h"
#include "platform/cuda/fake_cufile/fake_cufile.h"

namespace spillway::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Bytes kTrialBytes = kBlockBytes;  // each way

class DirectStorageOnFakes : public CudaWorld {
 protected:
  DirectStorageOnFakes() {
    fake_cufile_default_config(&files);
    options.host_bytes = 0;
    options.cufile = {.library = FAKE_CUFILE_LIBRARY, .module = "."};
  }
  void open_direct() {
    fake_cufile_reset(&files);
    open(base_uvm, 128 * kMiB);
  }
  // As much as needs the swap file, in several rounds.
  void rewrite_all(std::uint64_t rounds = 4) {
    const CuStream on = stream();
    if (buffers.empty()) {
      for (int i = 0; i < 10; ++i) {
        buffers.push_back(allocate(6 * kMiB));
        fill(on, buffers.back(), 1);
      }
    }
    for (std::uint64_t round = 2; round < 2 + rounds; ++round) {
      for (Buffer& buffer : buffers) {
        rewrite(on, buffer, round);
      }
    }
    synchronize(on);
    platform->wait_until_idle();
    EXPECT_EQ(wrong_words(), 0U);
    whole();
  }
  void TearDown() override {
    CudaWorld::TearDown();
    EXPECT_EQ(seen().handles, 0U);
    EXPECT_EQ(seen().wrong_calls, 0U);
  }
  static FakeCuFileCounters seen() {
    FakeCuFileCounters counters;
    fake_cufile_counters(&counters);
    return counters;
  }
  [[nodiscard]] std::uint64_t count(std::string_view name) const {
    for (const CudaPlatform::Work& work : platform->work()) {
      if (work.name == name) {
        return work.count;
      }
    }
    return 0;
  }

  FakeCuFileConfig files{};
  std::vector<Buffer> buffers;
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
  options.host_bytes = 16 * kMiB;
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

// Nobody is told: storage works as it does everywhere else.
class NoDirectStorage : public DirectStorageOnFakes {
 protected:
  void expect_staged() {
    open_direct();
    rewrite_all();
    EXPECT_GT(moved(Tier::kDevice, Tier::kStorage), 0U);
    EXPECT_GE(counters().copied_out_bytes, moved(Tier::kDevice, Tier::kStorage));
    EXPECT_EQ(count("direct_read") + count("direct_write") + count("direct_refused"), 0U);
    EXPECT_LE(seen().writes, 1U);
    EXPECT_EQ(seen().handles, 0U);
    EXPECT_THAT(warned, IsEmpty());
  }
  void expect_reason(const std::string& reason) const {
    const Result<CuFile> opened = open_cufile(options.cufile);
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message, HasSubstr(reason));
  }
};

TEST_F(NoDirectStorage, WithoutTheKernelModule) {
  options.cufile.module = "no/such/module";
  expect_staged();
  expect_reason("the kernel module nvidia-fs is not loaded");
}

TEST_F(NoDirectStorage, WithoutTheLibrary) {
  options.cufile.library = "/no/such/libcufile.so.0";
  expect_staged();
  expect_reason("no libcufile");
}

TEST_F(NoDirectStorage, WithALibraryThatLacksTheCalls) {
  options.cufile.library = FAKE_CUDA_LIBRARY;
  expect_staged();
  expect_reason("libcufile has no cuFile");
}

TEST_F(NoDirectStorage, WithALibraryThatDoesNotUseTheModule) {
  files.module_major = files.module_minor = 0;
  expect_staged();
  expect_reason("does not use nvidia-fs");
}

TEST_F(NoDirectStorage, WithCompatibilityModeAllowed) {
  files.control = kCuFileAllowsCompatibility;
  expect_staged();
  expect_reason("CUFILE_ALLOW_COMPAT_MODE=false");
}

TEST_F(NoDirectStorage, WithALibraryThatIsSetToPlainReadsAndWrites) {
  for (const unsigned control : {kCuFilePlainIo, kCuFileFallsBack}) {
    files.control = control;
    fake_cufile_reset(&files);
    expect_reason("set to go through host memory");
  }
  expect_staged();
}

TEST_F(NoDirectStorage, WithASwapFileThatIsRefused) {
  files.register_error = 5008;
  expect_staged();
}

TEST_F(NoDirectStorage, WithATrialThatIsRefused) {
  files.spared = 0;
  files.refused = 1;
  expect_staged();
}

TEST_F(NoDirectStorage, WithATrialThatComesShort) {
  files.spared = 0;
  files.too_short = 1;
  expect_staged();
}

TEST_F(NoDirectStorage, WithOtherBytesReadThanWereWritten) {
  files.wrong_reads = 1;
  expect_staged();
}

TEST_F(NoDirectStorage, WithWritesThatDoNotReachTheFile) {
  files.lost_writes = 1;
  expect_staged();
}

// A library that nobody has opened yet: another file.
class UnopenedLibrary : public NoDirectStorage {
 protected:
  UnopenedLibrary() {
    std::filesystem::copy_file(FAKE_CUFILE_LIBRARY, kCopy,
                               std::filesystem::copy_options::overwrite_existing);
    options.cufile.library = std::filesystem::absolute(kCopy);
    library_ = ::dlopen(options.cufile.library.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library_, nullptr);
  }
  ~UnopenedLibrary() override {
    ::dlclose(library_);
    std::filesystem::remove(kCopy);
  }
  template <typename Function>
  Function* found(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }

  static constexpr const char* kCopy = "libcufile_unopened.so";
  void* library_ = nullptr;
};

TEST_F(UnopenedLibrary, ThatDoesNotOpenIsNotUsed) {
  files.open_error = 5007;
  found<decltype(fake_cufile_reset)>("fake_cufile_reset")(&files);
  expect_staged();
  expect_reason("cuFileDriverOpen: error 5007");
}

TEST_F(UnopenedLibrary, ThatTheProgramHasOpenedIsNotUsed) {
  found<decltype(fake_cufile_reset)>("fake_cufile_reset")(&files);
  start();
  EXPECT_EQ(found<CuFileError()>("cuFileDriverOpen")().error, 0);
  expect_staged();
  expect_reason("the program uses libcufile itself");
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
  files.fails = 0.1;
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
  for (int i = 0; i < 9; ++i) {
    // The last one needs the room of several at once.
    buffers.push_back(allocate((i < 8 ? 2 : 8) * kMiB));
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
