// How long at least one thread has been stopped: overlapping stops count once.
#include "platform/common/stall_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace spillway {
namespace {

TEST(StallClock, CountsOverlappingStopsOnce) {
  StallClock clock;
  const TimeNs begin_ns = now_ns();
  clock.begin(begin_ns);
  clock.begin(now_ns());
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  clock.end();
  EXPECT_GE(clock.current_ns(), 10 * kNsPerMs);  // one is stopped still
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  clock.end();
  EXPECT_GE(clock.total_ns(), 20 * kNsPerMs);
  EXPECT_LE(clock.total_ns(), now_ns() - begin_ns);
  EXPECT_EQ(clock.current_ns(), 0);
}

// What is told to have begun earlier counts from then: a fault is read later than it happens.
TEST(StallClock, CountsFromWhenTheFirstOneStopped) {
  StallClock clock;
  clock.begin(now_ns() - 500 * kNsPerMs);
  clock.begin(now_ns() - 900 * kNsPerMs);  // heard of second
  EXPECT_GE(clock.current_ns(), 500 * kNsPerMs);
  clock.end();
  clock.end();
  EXPECT_GE(clock.total_ns(), 500 * kNsPerMs);
  EXPECT_LT(clock.total_ns(), 900 * kNsPerMs);
}

// A fault may be read when the stall during which it happened is over.
TEST(StallClock, CountsNoTimeTwice) {
  StallClock clock;
  const TimeNs begin_ns = now_ns() - 500 * kNsPerMs;
  clock.begin(begin_ns);
  clock.end();
  clock.begin(begin_ns + 100 * kNsPerMs);
  EXPECT_LT(clock.current_ns(), 400 * kNsPerMs);
  clock.end();
  EXPECT_LE(clock.total_ns(), now_ns() - begin_ns);
}

TEST(StallClock, DoesNotRunWhileNobodyIsStopped) {
  StallClock clock;
  clock.begin(now_ns());
  clock.end();
  const TimeNs once_ns = clock.total_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(clock.total_ns(), once_ns);
  EXPECT_EQ(clock.ended_stalls_ns(), once_ns);
}

TEST(StallClock, AStallThatLastsIsNoEndedOne) {
  StallClock clock;
  clock.begin(now_ns() - 5 * kNsPerMs);
  EXPECT_EQ(clock.ended_stalls_ns(), 0);
  EXPECT_GE(clock.total_ns(), 5 * kNsPerMs);
  clock.end();
  EXPECT_GE(clock.ended_stalls_ns(), 5 * kNsPerMs);
}

// Launches that are marked ask from their own threads.
TEST(StallClock, AnyThreadMayAskForEndedStalls) {
  StallClock clock;
  std::thread asks([&] {
    TimeNs before_ns = 0;
    for (int i = 0; i < 10'000; ++i) {
      const TimeNs ended_ns = clock.ended_stalls_ns();
      EXPECT_GE(ended_ns, before_ns);
      before_ns = ended_ns;
    }
  });
  for (int i = 0; i < 10'000; ++i) {
    clock.begin(now_ns() - 1);
    clock.end();
  }
  asks.join();
  EXPECT_GE(clock.ended_stalls_ns(), 10'000);
}

}  // namespace
}  // namespace spillway
