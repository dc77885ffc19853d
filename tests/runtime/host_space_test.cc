// A space on this machine whose policy plans: it watches an iteration, plans, and plans anew when
// the program has become another.
#include "runtime/host/host_space.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "platform/host/userfault.h"

namespace spillway {
namespace {

class HostSpaceTest : public ::testing::Test {
 protected:
  static constexpr Bytes kArrayBytes = 8 * kMiB;

  void open(const std::string& policy) {
    if (const host::UserfaultSupport support = host::userfault_support();
        !support.write_protection || !support.kernel_faults) {
      GTEST_SKIP() << support.reason;
    }
    HostSpaceOptions options;
    options.device_bytes = 64 * kMiB;
    options.host_bytes = 512 * kMiB;
    options.policy = policy;
    Result<std::unique_ptr<HostSpace>> space = HostSpace::open(options);
    ASSERT_TRUE(space) << space.error().message;
    space_ = std::move(*space);
    for (char*& array : arrays_) {
      array = static_cast<char*>(space_->platform().allocate(kArrayBytes).value_or(nullptr));
      ASSERT_NE(array, nullptr);
    }
  }

  // Goes over half of the arrays, and back. Returns what iteration_ended says.
  bool iterate(std::size_t first) {
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      const std::size_t half = arrays_.size() / 2;
      const std::size_t at = first + (i < half ? i : 2 * half - 1 - i);
      const std::array operand{host::HostPlatform::Operand{
          .start = arrays_[at], .bytes = kArrayBytes, .mode = AccessMode::kReadWrite}};
      const LaunchSeq launch =
          space_->platform().begin_launch(i < half ? "there" : "back", operand);
      for (Bytes page = 0; page < kArrayBytes; page += kPageBytes) {
        ++arrays_[at][page];
      }
      ::usleep(2'000);
      space_->platform().end_launch(launch);
    }
    return space_->iteration_ended();
  }

  std::unique_ptr<HostSpace> space_;
  std::array<char*, 32> arrays_{};
};

TEST_F(HostSpaceTest, PlansAnewForAProgramThatHasChanged) {
  open("g10");
  if (!space_) return;
  EXPECT_TRUE(iterate(0));   // the second one is watched
  EXPECT_FALSE(iterate(0));  // ... and planned for
  ASSERT_TRUE(space_->plan_report());
  EXPECT_EQ(space_->plan_report()->number, 1U);
  EXPECT_EQ(space_->plan_report()->launches, 32U);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(iterate(0)) << i;
  int until_watched = 0;
  while (!iterate(16)) {
    ASSERT_LT(++until_watched, 10);
  }
  EXPECT_FALSE(iterate(16));
  EXPECT_EQ(space_->plan_report()->number, 2U);
  const std::uint64_t before = space_->platform().stats().engine.faults;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(iterate(16)) << i;
  EXPECT_LT(space_->platform().stats().engine.faults - before, 3 * 64U);  // 128 blocks, all paged
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const int visits = i < 16 ? 16 : 2 * (until_watched + 1 + 1 + 3);
    EXPECT_EQ(arrays_[i][0], static_cast<char>(visits)) << i;
    EXPECT_EQ(arrays_[i][kArrayBytes - kPageBytes], static_cast<char>(visits)) << i;
  }
  EXPECT_TRUE(space_->platform().check_invariants());
}

TEST_F(HostSpaceTest, WatchesOnlyForPoliciesThatLearn) {
  for (const auto& [policy, watches] :
       {std::pair{"base_uvm", false}, std::pair{"ideal", false}, std::pair{"deepum", true}}) {
    open(policy);
    if (!space_) return;
    EXPECT_EQ(iterate(0), watches) << policy;
    EXPECT_EQ(space_->watches(), watches) << policy;
    EXPECT_FALSE(iterate(0)) << policy;
    EXPECT_FALSE(space_->plan_report()) << policy;
  }
}

}  // namespace
}  // namespace spillway
