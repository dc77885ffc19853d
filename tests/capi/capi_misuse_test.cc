// The C API misused: an error code, a line that says what is wrong, and nothing changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <thread>

#include "capi/capi_space.h"

namespace spillway::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void expect_error(spillwayError_t error, spillwayError_t expected, const char* words) {
  EXPECT_EQ(error, expected) << spillwayGetErrorName(error);
  EXPECT_THAT(spillwayGetLastErrorMessage(), HasSubstr(words));
  EXPECT_THAT(spillwayGetLastErrorMessage(), Not(HasSubstr("\n")));
}

class CapiMisuseTest : public CapiSpaceTest {
 protected:
  void SetUp() override {
    CapiSpaceTest::SetUp();
    if (space_ != nullptr) {
      ASSERT_EQ(spillwayMalloc(&memory_, 10 * kMiB, space_), spillwaySuccess);
    }
  }
  void* memory_ = nullptr;
};

TEST(CapiErrorTest, EveryCodeHasANameAndAText) {
  for (const spillwayError_t code :
       {spillwaySuccess, spillwayErrorInvalidValue, spillwayErrorMemoryAllocation,
        spillwayErrorNotSupported, spillwayErrorIo, spillwayErrorBusy, spillwayErrorMode,
        spillwayErrorUnknown}) {
    EXPECT_THAT(spillwayGetErrorName(code), HasSubstr("spillway"));
    EXPECT_STRNE(spillwayGetErrorString(code), "");
  }
  EXPECT_THAT(spillwayGetErrorName(static_cast<spillwayError_t>(77)), HasSubstr("not a"));
  EXPECT_THAT(spillwayGetErrorString(static_cast<spillwayError_t>(77)), HasSubstr("not an error"));
}

TEST_F(CapiMisuseTest, NullEverywhere) {
  expect_error(spillwaySpaceOptionsInit(nullptr, sizeof(options_)), spillwayErrorInvalidValue,
               "options is NULL");
  expect_error(spillwaySpaceCreate(nullptr, &options_), spillwayErrorInvalidValue, "space is NULL");
  expect_error(spillwayMalloc(nullptr, 1, space_), spillwayErrorInvalidValue, "ptr is NULL");
  void* start = nullptr;
  expect_error(spillwayMalloc(&start, 1, nullptr), spillwayErrorInvalidValue, "space is NULL");
  expect_error(spillwayMemDiscard(nullptr, 1, space_), spillwayErrorInvalidValue, "not memory");
  expect_error(spillwayMemPrefetchAsync(nullptr, 1, spillwayTierDevice, space_),
               spillwayErrorInvalidValue, "not memory");
  spillwayLaunch_t launch = 0;
  expect_error(spillwayLaunchBegin(nullptr, "a", nullptr, 0, space_), spillwayErrorInvalidValue,
               "launch is NULL");
  expect_error(spillwayLaunchBegin(&launch, nullptr, nullptr, 0, space_), spillwayErrorInvalidValue,
               "name is NULL");
  expect_error(spillwayLaunchBegin(&launch, "a", nullptr, 1, space_), spillwayErrorInvalidValue,
               "accesses is NULL");
  const spillwayAccess_t access{nullptr, 1, spillwayAccessRead};
  expect_error(spillwayLaunchBegin(&launch, "a", &access, 1, space_), spillwayErrorInvalidValue,
               "access 0 of the launch");
  expect_error(spillwayGetStatistics(nullptr, 8, space_), spillwayErrorInvalidValue,
               "statistics is NULL");
  expect_error(spillwaySynchronize(nullptr), spillwayErrorInvalidValue, "space is NULL");
  expect_error(spillwayIterationEnd(nullptr), spillwayErrorInvalidValue, "space is NULL");
  EXPECT_EQ(spillwayFree(nullptr, space_), spillwaySuccess);
  EXPECT_EQ(spillwaySpaceDestroy(nullptr), spillwaySuccess);
  EXPECT_EQ(spillwayMemGetInfo(nullptr, nullptr, space_), spillwaySuccess);
  EXPECT_EQ(spillwayLaunchBegin(&launch, "empty", nullptr, 0, space_), spillwaySuccess);
  EXPECT_EQ(spillwayLaunchEnd(launch, space_), spillwaySuccess);
}

TEST_F(CapiMisuseTest, OptionsThatNoSpaceCanHave) {
  spillwaySpace_t space = nullptr;
  spillwaySpaceOptions_t wrong = options_;
  wrong.deviceBytes = 1024;
  expect_error(spillwaySpaceCreate(&space, &wrong), spillwayErrorInvalidValue, "too small");
  wrong = options_;
  wrong.hostBytes = std::numeric_limits<std::uint64_t>::max();
  expect_error(spillwaySpaceCreate(&space, &wrong), spillwayErrorInvalidValue, "1 PiB");
  wrong = options_;
  wrong.policy = "guess";
  expect_error(spillwaySpaceCreate(&space, &wrong), spillwayErrorInvalidValue, "guess");
  wrong.policy = "g10_gds";  // moves to storage only, and there is none
  expect_error(spillwaySpaceCreate(&space, &wrong), spillwayErrorInvalidValue, "g10_gds");
  wrong.policy = nullptr;
  expect_error(spillwaySpaceCreate(&space, &wrong), spillwayErrorInvalidValue, "policy");
  wrong = options_;
  wrong.linkBytesPerS = std::numeric_limits<double>::quiet_NaN();
  expect_error(spillwaySpaceCreate(&space, &wrong), spillwayErrorInvalidValue, "link");
  wrong = options_;
  wrong.storagePath = "/proc/none/here";
  EXPECT_NE(spillwaySpaceCreate(&space, &wrong), spillwaySuccess);
  EXPECT_THAT(spillwayGetLastErrorMessage(), HasSubstr("/proc/none/here"));
  wrong = {};
  expect_error(spillwaySpaceCreate(&space, &wrong), spillwayErrorInvalidValue,
               "spillwaySpaceOptionsInit");
  expect_error(spillwaySpaceOptionsInit(&wrong, 8), spillwayErrorInvalidValue, "version");
  EXPECT_EQ(space, nullptr);
}

TEST_F(CapiMisuseTest, AllocationsThatAreNone) {
  int local = 0;
  expect_error(spillwayFree(&local, space_), spillwayErrorInvalidValue, "no allocation");
  expect_error(spillwayFree(static_cast<char*>(memory_) + 4096, space_), spillwayErrorInvalidValue,
               "no allocation");
  void* none = &local;
  ASSERT_EQ(spillwayMalloc(&none, 0, space_), spillwaySuccess);
  EXPECT_EQ(none, nullptr);
  none = &local;
  expect_error(spillwayMalloc(&none, 1024 * kMiB, space_), spillwayErrorMemoryAllocation,
               "out of memory");
  expect_error(spillwayMalloc(&none, std::numeric_limits<std::size_t>::max(), space_),
               spillwayErrorMemoryAllocation, "out of memory");
  EXPECT_EQ(none, &local);
  void* other = nullptr;
  ASSERT_EQ(spillwayMalloc(&other, kMiB, space_), spillwaySuccess);
  ASSERT_EQ(spillwayFree(other, space_), spillwaySuccess);
  expect_error(spillwayFree(other, space_), spillwayErrorInvalidValue, "freed before");
}

TEST_F(CapiMisuseTest, RangesThatAreNone) {
  char* const start = static_cast<char*>(memory_);
  expect_error(spillwayMemPrefetchAsync(start, 10 * kMiB + 1, spillwayTierDevice, space_),
               spillwayErrorInvalidValue, "beyond the end");
  expect_error(spillwayMemPrefetchAsync(start + 4096, 10 * kMiB, spillwayTierDevice, space_),
               spillwayErrorInvalidValue, "beyond the end");
  expect_error(spillwayMemPrefetchAsync(start, 0, spillwayTierDevice, space_),
               spillwayErrorInvalidValue, "0 bytes");
  expect_error(spillwayMemDiscard(start + 10 * kMiB, 1, space_), spillwayErrorInvalidValue,
               "not memory");
  expect_error(spillwayMemPrefetchAsync(start, 1, static_cast<spillwayTier_t>(3), space_),
               spillwayErrorInvalidValue, "spillwayTier_t");
  expect_error(spillwayMemPreEvictAsync(start, 1, spillwayTierDevice, space_),
               spillwayErrorInvalidValue, "spillwayMemPrefetchAsync");
  expect_error(spillwayMemPreEvictAsync(start, 1, spillwayTierStorage, space_),
               spillwayErrorNotSupported, "storage");
  spillwayAccess_t access{start, 1, spillwayAccessRead};
  const int no_mode = 4;
  std::memcpy(&access.mode, &no_mode, sizeof(no_mode));
  spillwayLaunch_t launch = 0;
  expect_error(spillwayLaunchBegin(&launch, "a", &access, 1, space_), spillwayErrorInvalidValue,
               "spillwayAccessMode_t");
}

TEST_F(CapiMisuseTest, WhatALaunchUsesStays) {
  const spillwayAccess_t access{memory_, 10 * kMiB, spillwayAccessReadWrite};
  spillwayLaunch_t launch = 0;
  ASSERT_EQ(spillwayLaunchBegin(&launch, "a", &access, 1, space_), spillwaySuccess);
  expect_error(spillwayFree(memory_, space_), spillwayErrorBusy, "end it before freeing");
  expect_error(spillwayMemDiscard(memory_, 10 * kMiB, space_), spillwayErrorBusy, "discarding");
  expect_error(spillwayMemDiscardLazy(memory_, 10 * kMiB, space_), spillwayErrorBusy, "discarding");
  expect_error(spillwaySpaceDestroy(space_), spillwayErrorBusy, "a launch runs");
  // Of a larger allocation, what it does not use may be discarded, and used by another launch.
  void* large = nullptr;
  ASSERT_EQ(spillwayMalloc(&large, 20 * kMiB, space_), spillwaySuccess);
  char* const second_half = static_cast<char*>(large) + 10 * kMiB;
  const spillwayAccess_t half{large, 4 * kMiB, spillwayAccessRead};
  spillwayLaunch_t part = 0;
  ASSERT_EQ(spillwayLaunchBegin(&part, "part", &half, 1, space_), spillwaySuccess) << message();
  EXPECT_EQ(spillwayMemDiscard(second_half, 10 * kMiB, space_), spillwaySuccess) << message();
  expect_error(spillwayMemDiscard(large, 10 * kMiB, space_), spillwayErrorBusy, "discarding");
  const spillwayAccess_t rest{second_half, 4 * kMiB, spillwayAccessRead};
  spillwayLaunch_t beside = 0;
  expect_error(spillwayLaunchBegin(&beside, "beside", &rest, 1, space_), spillwayErrorBusy,
               "needs 4 MiB beside the 14 MiB");
  ASSERT_EQ(spillwayLaunchEnd(part, space_), spillwaySuccess);
  EXPECT_EQ(spillwayMemDiscard(large, 10 * kMiB, space_), spillwaySuccess);
  EXPECT_EQ(spillwayFree(large, space_), spillwaySuccess);
  // One that could only wait for the first, for ever.
  void* other = nullptr;
  ASSERT_EQ(spillwayMalloc(&other, 8 * kMiB, space_), spillwaySuccess);
  const spillwayAccess_t second{other, 8 * kMiB, spillwayAccessRead};
  spillwayLaunch_t nested = 0;
  expect_error(spillwayLaunchBegin(&nested, "b", &second, 1, space_), spillwayErrorBusy,
               "end one of them first");
  // The same memory again costs nothing.
  ASSERT_EQ(spillwayLaunchBegin(&nested, "c", &access, 1, space_), spillwaySuccess);
  ASSERT_EQ(spillwayLaunchEnd(launch, space_), spillwaySuccess);
  expect_error(spillwayFree(memory_, space_), spillwayErrorBusy, "freeing");
  ASSERT_EQ(spillwayLaunchEnd(nested, space_), spillwaySuccess);
  expect_error(spillwayLaunchEnd(nested, space_), spillwayErrorInvalidValue, "ended before");
  expect_error(spillwayLaunchEnd(0, space_), spillwayErrorInvalidValue, "no launch");
  ASSERT_EQ(spillwayLaunchBegin(&nested, "b", &second, 1, space_), spillwaySuccess);
  ASSERT_EQ(spillwayLaunchEnd(nested, space_), spillwaySuccess);
  EXPECT_EQ(spillwayFree(memory_, space_), spillwaySuccess);
}

TEST_F(CapiMisuseTest, ASpaceThatIsGoneAndOneThatIsAnother) {
  spillwaySpace_t second = nullptr;
  ASSERT_EQ(spillwaySpaceCreate(&second, &options_), spillwaySuccess);
  expect_error(spillwayFree(memory_, second), spillwayErrorInvalidValue, "no allocation");
  ASSERT_EQ(spillwaySpaceDestroy(second), spillwaySuccess);
  expect_error(spillwaySpaceDestroy(second), spillwayErrorInvalidValue, "destroyed");
  expect_error(spillwaySynchronize(second), spillwayErrorInvalidValue, "destroyed");
  spillwaySpace_t third = nullptr;
  ASSERT_EQ(spillwaySpaceCreate(&third, &options_), spillwaySuccess);
  EXPECT_NE(third, second);
  ASSERT_EQ(spillwaySpaceDestroy(third), spillwaySuccess);
}

// The line is the thread's own, and as short a structure as an old program has is filled in.
TEST_F(CapiMisuseTest, MessagesAreAThreadsOwn) {
  expect_error(spillwayMalloc(nullptr, 1, space_), spillwayErrorInvalidValue, "ptr is NULL");
  std::thread other([] { EXPECT_STREQ(spillwayGetLastErrorMessage(), ""); });
  other.join();
  std::array<std::uint64_t, 3> part{1, 1, 77};
  ASSERT_EQ(spillwayGetStatistics(reinterpret_cast<spillwayStatistics_t*>(part.data()), 16, space_),
            spillwaySuccess);
  EXPECT_EQ(part[0], 16 * kMiB);
  EXPECT_EQ(part[1], 128 * kMiB);
  EXPECT_EQ(part[2], 77U);
}

TEST_F(CapiMisuseTest, DefaultsComeFromTheEnvironment) {
  ::setenv("SPILLWAY_DEVICE_MEMORY", "96MiB", 1);
  ::setenv("SPILLWAY_POLICY", "deepum_plus", 1);
  spillwaySpaceOptions_t options{};
  EXPECT_EQ(spillwaySpaceOptionsInit(&options, sizeof(options)), spillwaySuccess);
  EXPECT_EQ(options.deviceBytes, 96 * kMiB);
  EXPECT_STREQ(options.policy, "deepum_plus");
  ::setenv("SPILLWAY_DEVICE_MEMORY", "much", 1);
  expect_error(spillwaySpaceOptionsInit(&options, sizeof(options)), spillwayErrorInvalidValue,
               "SPILLWAY_DEVICE_MEMORY");
  EXPECT_EQ(options.deviceBytes, 96 * kMiB);
  ::unsetenv("SPILLWAY_DEVICE_MEMORY");
  ::unsetenv("SPILLWAY_POLICY");
}

}  // namespace
}  // namespace spillway::test
