// A space on this machine whose policy plans: it watches an iteration, plans, and plans anew when
// the program has become another.
#include "runtime/run/program_space.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "platform/host/faults/userfault.h"

namespace spillway {
namespace {

class ProgramSpaceTest : public ::testing::Test {
 protected:
  static constexpr Bytes kArrayBytes = 8 * kMiB;

  void open(const std::string& policy) {
    if (const host::UserfaultSupport support = host::userfault_support();
        !support.write_protection || !support.kernel_faults) {
      GTEST_SKIP() << support.reason;
    }
    SpaceOptions options;
    options.device_bytes = 64 * kMiB;
    options.host_bytes = 512 * kMiB;
    options.policy = policy;
    Result<std::unique_ptr<ProgramSpace>> space = ProgramSpace::open(options);
    ASSERT_TRUE(space) << space.error().message;
    space_ = std::move(*space);
    for (char*& array : arrays_) {
      array = static_cast<char*>(space_->platform().allocate(kArrayBytes).value_or(nullptr));
      ASSERT_NE(array, nullptr);
    }
  }

  // Goes over some of the arrays, and back. Returns what iteration_ended says.
  bool iterate(std::size_t first, std::size_t count) {
    launch(first, count);
    return space_->iteration_ended();
  }
  // Likewise in a program that says nothing, whose next iteration is found; its launches say what
  // they use when that is wanted.
  bool find(std::size_t first, std::size_t count) {
    if (space_->wants_operands()) {
      space_->operands_told();
    }
    launch(first, count);
    return space_->iteration_found(2 * count);
  }
  void launch(std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < 2 * count; ++i) {
      const std::size_t at = first + (i < count ? i : 2 * count - 1 - i);
      const std::array operand{ProgramOperand{
          .start = arrays_[at], .bytes = kArrayBytes, .mode = AccessMode::kReadWrite}};
      const LaunchId launch =
          space_->platform().begin_launch(i < count ? "there" : "back", operand);
      for (Bytes page = 0; page < kArrayBytes; page += kPageBytes) {
        ++arrays_[at][page];
      }
      ::usleep(2'000);
      space_->platform().end_launch(launch);
    }
  }

  std::unique_ptr<ProgramSpace> space_;
  std::array<char*, 20> arrays_{};
};

// First with what fits on the device, so that no fault is a matter of time; then with twice that.
TEST_F(ProgramSpaceTest, PlansAnewForAProgramThatHasChanged) {
  constexpr std::size_t kFew = 4;
  constexpr std::size_t kMany = 16;
  open("g10");
  if (!space_) return;
  EXPECT_TRUE(iterate(0, kFew));   // the second one is watched
  EXPECT_FALSE(iterate(0, kFew));  // ... and planned for
  ASSERT_TRUE(space_->plan_report());
  EXPECT_EQ(space_->plan_report()->number, 1U);
  EXPECT_EQ(space_->plan_report()->launches, 2 * kFew);
  EXPECT_EQ(space_->plan_report()->to_host_bytes, 0U);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(iterate(0, kFew)) << i;
  EXPECT_FALSE(iterate(kFew, kMany));  // once may be an exception
  EXPECT_TRUE(iterate(kFew, kMany));
  EXPECT_FALSE(iterate(kFew, kMany));
  EXPECT_EQ(space_->plan_report()->number, 2U);
  EXPECT_EQ(space_->plan_report()->launches, 2 * kMany);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(iterate(kFew, kMany)) << i;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    EXPECT_EQ(arrays_[i][0], 12) << i;  // six iterations, there and back
    EXPECT_EQ(arrays_[i][kArrayBytes - kPageBytes], 12) << i;
  }
  EXPECT_TRUE(space_->platform().check_invariants());
}

TEST_F(ProgramSpaceTest, PlansForFoundIterationsWhenDataMoves) {
  constexpr std::size_t kFew = 4;
  constexpr std::size_t kMany = 16;
  open("g10");
  if (!space_) return;
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(find(0, kFew)) << i;  // it fits: nobody is asked
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(find(kFew, kMany)) << i;
  EXPECT_TRUE(find(kFew, kMany));
  EXPECT_TRUE(space_->wants_operands());
  EXPECT_FALSE(space_->watches());
  EXPECT_FALSE(find(kFew, kMany));  // told from somewhere within
  EXPECT_TRUE(space_->watches());
  EXPECT_FALSE(space_->plan_report());
  EXPECT_FALSE(find(kFew, kMany));
  EXPECT_FALSE(space_->watches() || space_->wants_operands());
  ASSERT_TRUE(space_->plan_report());
  EXPECT_EQ(space_->plan_report()->launches, 2 * kMany);
  // What it moves, and where to, depends on how fast a busy machine has been.
  EXPECT_EQ(space_->plan_report()->peak_bytes, kMany * kArrayBytes);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(find(kFew, kMany)) << i;
  EXPECT_TRUE(space_->platform().check_invariants());
}

TEST_F(ProgramSpaceTest, OneOfAnotherLengthIsNotPlannedFor) {
  open("g10");
  if (!space_) return;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(find(0, 16)) << i;
  EXPECT_TRUE(find(0, 16));
  EXPECT_FALSE(find(0, 16));
  EXPECT_FALSE(find(0, 8));  // watched
  EXPECT_FALSE(space_->plan_report());
  EXPECT_TRUE(space_->wants_operands());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(find(0, 16)) << i;
  EXPECT_FALSE(space_->wants_operands());  // tried often enough
  EXPECT_FALSE(space_->plan_report());
}

// Layers of the first step look like iterations.
TEST_F(ProgramSpaceTest, WhatTheProgramSaysOfIterationsEndsWhatWasFound) {
  open("g10");
  if (!space_) return;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(find(0, 16)) << i;
  EXPECT_TRUE(find(0, 16));
  EXPECT_FALSE(find(0, 16));  // the next is watched
  EXPECT_TRUE(iterate(0, 16));
  EXPECT_FALSE(space_->plan_report());
  EXPECT_FALSE(find(0, 16));
  EXPECT_FALSE(iterate(0, 16));
  ASSERT_TRUE(space_->plan_report());
  EXPECT_EQ(space_->plan_report()->number, 1U);
  EXPECT_EQ(space_->plan_report()->launches, 64U);
}

TEST_F(ProgramSpaceTest, WatchesOnlyForPoliciesThatLearn) {
  for (const auto& [policy, watches] :
       {std::pair{"base_uvm", false}, std::pair{"ideal", false}, std::pair{"deepum", true}}) {
    open(policy);
    if (!space_) return;
    EXPECT_EQ(iterate(0, 16), watches) << policy;
    EXPECT_EQ(space_->watches(), watches) << policy;
    EXPECT_FALSE(iterate(0, 16)) << policy;
    EXPECT_FALSE(space_->plan_report()) << policy;
  }
}

}  // namespace
}  // namespace spillway
