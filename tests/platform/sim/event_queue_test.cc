#include "platform/sim/event_queue.h"

#include <gtest/gtest.h>

namespace spillway::sim {
namespace {

TEST(EventQueue, WhatIsPushedForOneTimeComesInTheOrderInWhichItWasPushed) {
  EventQueue queue;
  queue.push(20, Event::Kind::kCleared, 1);
  queue.push(10, Event::Kind::kOrderEnds, 2);
  queue.push(20, Event::Kind::kOrderEnds, 3);
  EXPECT_EQ(queue.next_ns(), 10);
  EXPECT_EQ(queue.take().id, 2U);
  EXPECT_EQ(queue.now_ns(), 10);
  EXPECT_EQ(queue.take().id, 1U);
  EXPECT_EQ(queue.take().id, 3U);
  EXPECT_EQ(queue.next_ns(), std::nullopt);
}

TEST(EventQueue, TimeNeverGoesBack) {
  EventQueue queue;
  queue.pass_until(30);
  queue.pass_until(20);
  EXPECT_EQ(queue.now_ns(), 30);
}

}  // namespace
}  // namespace spillway::sim
