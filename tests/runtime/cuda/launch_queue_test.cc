// How far a program may be ahead of its GPU, by the driver's queues.
#include "runtime/cuda/launch_queue.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(LaunchQueue, GrowsAndShrinksAsTheDriverScalesItsQueues) {
  EXPECT_EQ(launches_ahead(nullptr, 13'000), 600U);
  EXPECT_EQ(launches_ahead("4x", 13'000), 2'400U);
  EXPECT_EQ(launches_ahead("2x", 13'000), 1'200U);
  EXPECT_EQ(launches_ahead("0.5x", 13'000), 300U);
  EXPECT_EQ(launches_ahead("0.25x", 13'000), 150U);
  EXPECT_EQ(launches_ahead("8x", 13'000), 600U);  // nothing that the driver knows
}

// It may not know the variable: then its queue would get full before we hold the program back.
TEST(LaunchQueue, DoesNotGrowWithAnOlderDriver) {
  EXPECT_EQ(launches_ahead("4x", 12'080), 600U);
  EXPECT_EQ(launches_ahead("0.25x", 12'080), 150U);
}

}  // namespace
}  // namespace spillway
