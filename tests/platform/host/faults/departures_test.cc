// When it is said that nothing leaves the device.
#include "platform/host/faults/departures.h"

#include <gtest/gtest.h>

namespace spillway::host {
namespace {

constexpr TimeNs kMilliseconds = 1'000'000;

TEST(DeparturesTest, NothingLeavesIfAllIsHeldForLong) {
  Departures departures;
  TimeNs at_ns = kNsPerS;
  while (!departures.end(false, at_ns)) {
    at_ns += kMilliseconds;
  }
  EXPECT_GT(at_ns, kNsPerS + Departures::kPatienceNs);
  EXPECT_LT(at_ns, kNsPerS + Departures::kPatienceNs + 10 * kMilliseconds);
}

TEST(DeparturesTest, WhatLeavesBetweenBeginsItAnew) {
  Departures departures;
  for (TimeNs at_ns = 0; at_ns < 5 * Departures::kPatienceNs; at_ns += kMilliseconds) {
    EXPECT_FALSE(departures.end(at_ns % (1000 * kMilliseconds) == 0, at_ns));
  }
}

// The last thing that was tried was held, the program needed nothing for a minute, and the next one
// is held as well: others would leave.
TEST(DeparturesTest, AProgramThatNeedsNothingIsNoSign) {
  Departures departures;
  EXPECT_FALSE(departures.end(false, 0));
  EXPECT_FALSE(departures.end(false, 60 * kNsPerS));
  EXPECT_FALSE(departures.end(false, 120 * kNsPerS));
  EXPECT_FALSE(departures.end(true, 120 * kNsPerS));
}

}  // namespace
}  // namespace spillway::host
