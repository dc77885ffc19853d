// When launches are let go because the device stands still, and when that has to be said
// (standstill.h).
#include "platform/cuda/stream/standstill.h"

#include <gtest/gtest.h>

#include "engine/engine_world.h"
#include "platform/cuda/fake_device.h"

namespace spillway::cuda {
namespace {

constexpr TimeNs kMs = 1'000'000;

class StandstillTest : public FakeDevice {
 protected:
  void SetUp() override {
    FakeDevice::SetUp();
    ASSERT_EQ(stream_waits.make(), CuResult::kSuccess);
    stream = launches.add_stream(nullptr, primary, false).value();
  }
  void TearDown() override {
    stream_waits.give_back();
    FakeDevice::TearDown();
  }
  // It has its memory, and does not end.
  void launch_one_that_runs() {
    const LogRow row = log.launched(hash_launch("one", {}), "one", {}).row;
    const std::uint32_t tag = launches.begin(stream, row, {});
    Launch launch;
    launch.tag = tag;
    launches.issued(tag, world.engine.issue_launch(launch).id);
    launches.released(tag, 0);
    launches.made(tag);
  }

  static constexpr TimeNs kStartNs = 5'000 * kMs;  // 0 means that nothing has been seen

  World world{one_at_a_time(1, 1, 0)};
  StreamWaits stream_waits{driver};
  LaunchLog log;
  StallClock stalls;
  DeviceLaunches launches{world.engine, stream_waits, log, stalls};
  Standstill standstill{launches};
  StreamId stream = 0;
};

TEST_F(StandstillTest, WhatIsOnItsWayNeedsNoHelp) {
  for (TimeNs at_ns = kStartNs; at_ns < kStartNs + 20'000 * kMs; at_ns += 1'000 * kMs) {
    const Standstill::Found found = standstill.look(false, at_ns);
    EXPECT_FALSE(found.let_go || found.say);
  }
}

TEST_F(StandstillTest, ASecondWithoutAnEndLetsTheNextGo) {
  EXPECT_FALSE(standstill.look(true, kStartNs).let_go);
  EXPECT_FALSE(standstill.look(true, kStartNs + 999 * kMs).let_go);
  EXPECT_TRUE(standstill.look(true, kStartNs + 1'001 * kMs).let_go);
}

TEST_F(StandstillTest, SomethingOnItsWayBeginsTheSecondAnew) {
  (void)standstill.look(true, kStartNs);
  (void)standstill.look(false, kStartNs + 900 * kMs);
  EXPECT_FALSE(standstill.look(true, kStartNs + 1'500 * kMs).let_go);
  EXPECT_TRUE(standstill.look(true, kStartNs + 1'901 * kMs).let_go);
}

TEST_F(StandstillTest, AnEndBeginsTheSecondAnew) {
  launch_one_that_runs();
  (void)standstill.look(true, kStartNs);
  ASSERT_EQ(stream_waits.put_marker(stream, 1, nullptr), CuResult::kSuccess);
  ASSERT_EQ(driver.stream_synchronize(nullptr), CuResult::kSuccess);
  ASSERT_TRUE(launches.take_ends());
  const TimeNs ended_ns = launches.ended_ns();
  EXPECT_FALSE(standstill.look(true, ended_ns + 1'001 * kMs).let_go);
  EXPECT_TRUE(standstill.look(true, ended_ns + 2'003 * kMs).let_go);
}

TEST_F(StandstillTest, WhileTheSameStandTheNextGoesSoon) {
  launch_one_that_runs();
  (void)standstill.look(true, kStartNs);
  EXPECT_FALSE(standstill.look(true, kStartNs + 6 * kMs).let_go);
  standstill.note_standing();
  EXPECT_TRUE(standstill.look(true, kStartNs + 6 * kMs).let_go);
}

TEST_F(StandstillTest, TenSecondsWithoutAnEndAreSaidOnce) {
  (void)standstill.look(true, kStartNs);
  EXPECT_FALSE(standstill.look(true, kStartNs + 9'999 * kMs).say);
  EXPECT_TRUE(standstill.look(true, kStartNs + 10'001 * kMs).say);
  EXPECT_FALSE(standstill.look(true, kStartNs + 30'000 * kMs).say);
}

TEST_F(StandstillTest, AThreadThatIsHeldGoesOnAfterASecondWithoutAnEnd) {
  EXPECT_FALSE(standstill.nothing_ends(kStartNs));
  EXPECT_FALSE(standstill.nothing_ends(kStartNs + 999 * kMs));
  EXPECT_TRUE(standstill.nothing_ends(kStartNs + 1'001 * kMs));
}

}  // namespace
}  // namespace spillway::cuda
