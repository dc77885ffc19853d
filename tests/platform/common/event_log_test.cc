// What a timeline is made of: launches of a stream one after the other, transfers with their bytes,
// waits; and no more of each than there is room for.
#include "platform/common/event_log.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(EventLog, LaunchesOfAStreamFollowEachOther) {
  EventLog log;
  log.launch_began(0, 0, "first", 10);
  log.launch_began(0, 1, "second", 11);  // issued while the first one runs
  log.launch_began(1, 0, "another name for the first", 12);
  log.launch_ended(0, 20);
  log.launch_ended(0, 30);
  log.launch_ended(1, 25);
  log.launch_ended(1, 26);  // nothing runs there
  log.launch_began(0, 0, "first", 40);
  const LoggedEvents events = log.events();
  ASSERT_EQ(events.launches.size(), 3U);
  EXPECT_EQ(events.launches[0].begin_ns, 10);
  EXPECT_EQ(events.launches[0].end_ns, 20);
  EXPECT_EQ(events.launches[1].begin_ns, 20);
  EXPECT_EQ(events.launches[1].issued_ns, 11);
  EXPECT_EQ(events.launches[1].end_ns, 30);
  EXPECT_EQ(events.launches[2].stream, 1U);
  EXPECT_EQ(events.launches[2].begin_ns, 12);
  EXPECT_EQ(events.names, (std::vector<std::string>{"first", "second"}));
}

TEST(EventLog, WhatFindsNoRoomIsCounted) {
  EventLog log(2);
  for (TimeNs at_ns = 0; at_ns < 5; ++at_ns) {
    log.launch_began(0, 0, "launch", at_ns);
    log.launch_ended(0, at_ns);
    log.transferred({.from = Tier::kHost,
                     .to = Tier::kDevice,
                     .bytes = 1,
                     .asked_ns = 0,
                     .begin_ns = 0,
                     .end_ns = 1});
    log.waited(0, LoggedWait::For::kRoom, 0, 1);
  }
  const LoggedEvents events = log.events();
  EXPECT_EQ(events.launches.size(), 2U);
  EXPECT_EQ(events.transfers.size(), 2U);
  EXPECT_EQ(events.waits.size(), 2U);
  EXPECT_EQ(events.dropped_launches, 3U);
  EXPECT_EQ(events.dropped_transfers, 3U);
  EXPECT_EQ(events.dropped_waits, 3U);
}

}  // namespace
}  // namespace spillway
