// How far ahead is prefetched, against made-up traffic: it grows where prefetching costs nothing,
// shrinks to where it does not, and what comes in without it is measured in between.
#include "policy/habits/prefetch_brake.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace spillway {
namespace {

constexpr std::size_t kKernels = 300;
constexpr Bytes kDemand = 300 * kMiB;  // an epoch, without prefetches

class PrefetchBrakeTest : public ::testing::Test {
 protected:
  // Launches of one epoch, in which `prefetched` bytes come in ahead and the rest by faults.
  void epoch(Bytes demanded, Bytes prefetched) {
    for (std::size_t i = 0; i < kKernels; ++i) {
      brake_.launched(kKernels);
      brake_.demanded(demanded / kKernels);
      brake_.prefetched(prefetched / kKernels);
    }
  }
  // As a prefetcher would behave that brings `waste` times as many bytes as are needed.
  void follow(double waste) {
    if (brake_.prefetches()) {
      epoch(0, static_cast<Bytes>(waste * static_cast<double>(kDemand)));
    } else {
      ++measured_;
      epoch(kDemand, 0);
    }
  }
  // The first epochs, in which the kernels become known and nothing can be prefetched yet.
  void begin() {
    epoch(kDemand, 0);
    epoch(kDemand, 0);
  }

  PrefetchBrake brake_{64};
  int measured_ = 0;
};

TEST_F(PrefetchBrakeTest, GrowsToTheDegreeWhereNothingMoreComesIn) {
  begin();
  EXPECT_EQ(brake_.reach(), 8U);
  for (int i = 0; i < 10; ++i) {
    follow(1.0);
  }
  EXPECT_EQ(brake_.reach(), 64U);
  EXPECT_EQ(measured_, 0);
}

TEST_F(PrefetchBrakeTest, StaysWithinASmallerDegree) {
  const PrefetchBrake brake(3);
  EXPECT_EQ(brake.reach(), 3U);
}

TEST_F(PrefetchBrakeTest, ShrinksUntilNothingIsFetchedAhead) {
  begin();
  for (int i = 0; i < 10; ++i) {
    follow(3.0);
  }
  EXPECT_EQ(brake_.reach(), 0U);
}

TEST_F(PrefetchBrakeTest, SettlesWhereItCostsLittle) {
  begin();
  std::uint32_t highest = 0;
  Bytes in_bytes = 0;
  constexpr int kEpochs = 200;
  for (int i = 0; i < kEpochs; ++i) {
    const double waste = brake_.reach() > 16 ? 2.0 : 1.0;
    in_bytes += static_cast<Bytes>((brake_.prefetches() ? waste : 1.0) * 1000);
    follow(waste);
    highest = i < 20 ? 0 : std::max(highest, brake_.reach());
  }
  EXPECT_EQ(highest, 32U) << "it tries, and goes back";
  EXPECT_LE(in_bytes, static_cast<Bytes>(kEpochs * 1000 * PrefetchBrake::kMostOfDemand));
}

TEST_F(PrefetchBrakeTest, AHeavierPhaseIsMeasuredAndNotTakenForWaste) {
  begin();
  for (int i = 0; i < 12; ++i) {
    follow(1.0);
  }
  ASSERT_EQ(brake_.reach(), 64U);
  for (int i = 0; i < 6; ++i) {
    if (brake_.prefetches()) {
      epoch(0, 3 * kDemand);
    } else {
      ++measured_;
      epoch(3 * kDemand, 0);
    }
  }
  EXPECT_EQ(measured_, 1);
  EXPECT_EQ(brake_.reach(), 64U);
}

TEST_F(PrefetchBrakeTest, LittleTrafficIsNobodysBusiness) {
  epoch(0, 0);
  for (int i = 0; i < 6; ++i) {
    epoch(kMiB, 4 * kMiB);
  }
  EXPECT_TRUE(brake_.prefetches());
  EXPECT_EQ(brake_.reach(), 64U);
}

}  // namespace
}  // namespace spillway
