// When a plan is given up for another one.
#include "runtime/run/plan_watch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>

namespace spillway {
namespace {

class PlanWatchTest : public ::testing::Test {
 protected:
  // Iterations with these faults; whether the last one, and no other, calls for a new plan.
  bool outdated_after(std::initializer_list<std::uint64_t> faults) {
    bool outdated = false;
    for (const std::uint64_t one : faults) {
      EXPECT_FALSE(outdated) << "too early";
      sum_ += one;
      outdated = watch_.outdated(sum_);
    }
    if (outdated) {
      watch_.begin(sum_);
    }
    return outdated;
  }

  std::uint64_t sum_ = 0;
  PlanWatch watch_;
};

TEST_F(PlanWatchTest, APlanThatWorksIsKept) {
  watch_.begin(sum_);
  EXPECT_FALSE(outdated_after({90, 40, 41, 60, 80, 39, 40}));
  EXPECT_FALSE(outdated_after({500, 40, 500, 40, 500, 40}));  // now and then an evaluation
}

TEST_F(PlanWatchTest, FewFaultsAreNoReason) {
  watch_.begin(sum_);
  EXPECT_FALSE(outdated_after({0, 3, 8, 12, 16, 15, 16}));
}

TEST_F(PlanWatchTest, AChangeThatStaysIsOne) {
  watch_.begin(sum_);
  EXPECT_TRUE(outdated_after({40, 200, 200}));
}

TEST_F(PlanWatchTest, APlanThatWasBadFromTheStartIsKept) {
  watch_.begin(sum_);
  EXPECT_FALSE(outdated_after({400, 400, 500, 400, 500, 500}));
}

TEST_F(PlanWatchTest, APlanThatIsMadeAnewMustProveItself) {
  watch_.begin(sum_);
  EXPECT_TRUE(outdated_after({40, 200, 200}));
  EXPECT_FALSE(outdated_after({150, 160, 150}));
  EXPECT_TRUE(outdated_after({900, 900, 900, 900}));
  EXPECT_TRUE(outdated_after({10, 90, 90, 90, 90, 90, 90, 90, 90}));
}

}  // namespace
}  // namespace spillway
