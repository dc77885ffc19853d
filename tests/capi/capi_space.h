// A space with a device of 16 MiB, for tests that use the C API as a program does.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "platform/host/faults/userfault.h"
#include "spillway/spillway.h"

namespace spillway::test {

inline constexpr std::size_t kMiB = 1 << 20;

class CapiSpaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const host::UserfaultSupport support = host::userfault_support();
    if (!support.write_protection || !support.kernel_faults) {
      GTEST_SKIP() << support.reason;
    }
    ASSERT_EQ(spillwaySpaceOptionsInit(&options_, sizeof(options_)), spillwaySuccess);
    options_.deviceBytes = 16 * kMiB;
    options_.hostBytes = 128 * kMiB;
    options_.policy = "base_uvm";
    ASSERT_EQ(spillwaySpaceCreate(&space_, &options_), spillwaySuccess) << message();
  }
  void TearDown() override {
    if (space_ != nullptr) {
      EXPECT_EQ(spillwaySpaceDestroy(space_), spillwaySuccess) << message();
    }
  }
  static std::string message() { return spillwayGetLastErrorMessage(); }

  spillwaySpaceOptions_t options_{};
  spillwaySpace_t space_ = nullptr;
};

}  // namespace spillway::test
