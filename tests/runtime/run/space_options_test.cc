// Budgets that nobody gives, and those that are more than the machine can hold.
#include "runtime/run/space_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Bytes kLimitBytes = 16 * kGiB;  // of which 1 stays for the program

SpaceOptions budgets(Bytes device_bytes, Bytes host_bytes) {
  SpaceOptions options;
  options.device_bytes = device_bytes;
  options.host_bytes = host_bytes;
  return options;
}

MemoryRoom room(Bytes left_bytes) {
  return {.limit_bytes = kLimitBytes,
          .left_bytes = left_bytes,
          .is_group = false,
          .whose = "this machine"};
}

TEST(FitInto, WhatFitsStays) {
  SpaceOptions options = budgets(8 * kGiB, 2 * kGiB);
  EXPECT_THAT(fit_into(room(12 * kGiB), options), IsEmpty());
  EXPECT_EQ(options.device_bytes, 8 * kGiB);
  EXPECT_EQ(options.host_bytes, 2 * kGiB);
}

TEST(FitInto, HostMemoryIsLoweredFirst) {
  SpaceOptions options = budgets(8 * kGiB, 64 * kGiB);
  const std::string said = fit_into(room(12 * kGiB), options);
  EXPECT_EQ(options.device_bytes, 8 * kGiB);
  EXPECT_EQ(options.host_bytes, 3 * kGiB);
  EXPECT_EQ(said,
            "the budgets are 8 GiB of device memory and 3 GiB of host memory: 12 GiB of the 16 GiB "
            "of this machine are left, and 1 GiB of them stay for the program itself");
}

TEST(FitInto, ADeviceThatIsTooLargeIsAllThereIs) {
  SpaceOptions options = budgets(kTiB, kTiB);
  (void)fit_into(room(12 * kGiB), options);
  EXPECT_EQ(options.device_bytes, 11 * kGiB);
  EXPECT_EQ(options.host_bytes, 0U);
}

TEST(FitInto, ALittleDeviceIsLeftInAnyCase) {
  SpaceOptions options = budgets(kTiB, kTiB);
  (void)fit_into(room(kGiB), options);
  EXPECT_EQ(options.device_bytes, 64 * kMiB);
  EXPECT_EQ(options.host_bytes, 0U);
  options = budgets(8 * kMiB, 0);
  EXPECT_THAT(fit_into(room(kGiB), options), IsEmpty());
}

class Defaults : public ::testing::Test {
 protected:
  void TearDown() override { ::unsetenv("SPILLWAY_DEVICE_MEMORY"); }
};

// On this machine, whatever it has: what others take meanwhile is less than a part of it.
TEST_F(Defaults, BothTiersAreThereAtOnce) {
  const MemoryRoom here = MemoryLimits().room();
  const Result<SpaceOptions> options = space_options_from_environment(host_defaults(here));
  ASSERT_TRUE(options);
  EXPECT_GT(options->device_bytes, here.left_bytes / 2);
  EXPECT_LE(options->device_bytes + options->host_bytes, here.to_take_bytes() / 16 * 17);
}

TEST_F(Defaults, HalfOfItIsForTheHostBesideALittleDevice) {
  const MemoryRoom here = MemoryLimits().room();
  if (here.left_bytes < here.limit_bytes / 2) {
    GTEST_SKIP() << "others have most of this machine's memory";
  }
  ::setenv("SPILLWAY_DEVICE_MEMORY", "8MiB", 1);
  const Result<SpaceOptions> options = space_options_from_environment(host_defaults(here));
  ASSERT_TRUE(options);
  EXPECT_GT(options->host_bytes, here.left_bytes / 16 * 7);
  EXPECT_LT(options->host_bytes, here.left_bytes / 16 * 9);
}

}  // namespace
}  // namespace spillway
