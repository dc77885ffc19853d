// Who comes behind whom on the program's streams, as the engine is told (stream_order.h).
#include "platform/cuda/stream/stream_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "engine/engine_world.h"
#include "platform/cuda/stream/device_launches.h"

namespace spillway::cuda {
namespace {

// Everything fits. A launch waits if it stands behind a signal that nobody records, or behind one
// that waits.
class StreamOrderTest : public ::testing::Test {
 protected:
  StreamId stream(CuStream handle, bool blocking, CuContext context = kContext) {
    return launches.add_stream(handle, context, blocking).value();
  }
  static CuStream handle(std::uintptr_t number) {
    return reinterpret_cast<CuStream>(number * 16);  // NOLINT(performance-no-int-to-ptr)
  }
  void put_one_that_waits(StreamId on) {
    order.put_on(on);
    world.engine.wait_for_signal(world.engine.create_signal(), on);
    EXPECT_EQ(world.begin({world.read(used)}, on).state, LaunchState::kWaiting);
  }
  [[nodiscard]] bool runs(StreamId on) {
    order.put_on(on);
    return world.begin({world.read(used)}, on).state == LaunchState::kReady;
  }

  inline static const auto kContext = reinterpret_cast<CuContext>(16);       // NOLINT
  inline static const auto kOtherContext = reinterpret_cast<CuContext>(32);  // NOLINT
  inline static const auto kEvent = reinterpret_cast<CuEvent>(48);           // NOLINT

  World world{one_at_a_time(2, 8, 0)};
  AllocationId used = world.written_blocks<1>()[0];
  Driver driver;
  StreamWaits stream_waits{driver};
  LaunchLog log;
  StallClock stalls;
  DeviceLaunches launches{world.engine, stream_waits, log, stalls};
  StreamOrder order{launches, world.engine};
};

TEST_F(StreamOrderTest, StreamsOfTheirOwnDoNotWaitForEachOther) {
  const StreamId one = stream(handle(1), false);
  const StreamId other = stream(handle(2), false);
  put_one_that_waits(one);
  EXPECT_TRUE(runs(other));
}

TEST_F(StreamOrderTest, WhatWaitsForAnEventComesBehindItsRecording) {
  const StreamId one = stream(handle(1), false);
  const StreamId other = stream(handle(2), false);
  EXPECT_FALSE(order.knows(kEvent));
  put_one_that_waits(one);
  order.record(kEvent, one);
  EXPECT_TRUE(runs(other));
  order.wait(other, order.signal_of(kEvent).value());
  EXPECT_FALSE(runs(other));
}

TEST_F(StreamOrderTest, ARecordingIsOfWhatStoodThereThen) {
  const StreamId one = stream(handle(1), false);
  const StreamId other = stream(handle(2), false);
  order.record(kEvent, one);
  put_one_that_waits(one);
  order.wait(other, order.signal_of(kEvent).value());
  EXPECT_TRUE(runs(other));
}

TEST_F(StreamOrderTest, ARecordingWithNothingOfOursBeforeItEndsTheOneBefore) {
  order.record(kEvent, stream(handle(1), false));
  order.record(kEvent, std::nullopt);
  EXPECT_TRUE(order.knows(kEvent));
  EXPECT_FALSE(order.signal_of(kEvent).has_value());
}

TEST_F(StreamOrderTest, ARefusedRecordingLeavesTheOneBefore) {
  order.record(kEvent, stream(handle(1), false));
  const std::optional<SignalId> before = order.signal_of(kEvent);
  ASSERT_TRUE(before.has_value());
  order.record(kEvent, std::nullopt);
  order.take_back(kEvent);
  EXPECT_EQ(order.signal_of(kEvent), before);
}

TEST_F(StreamOrderTest, TheNullStreamWaitsForBlockingStreams) {
  const StreamId null_stream = stream(nullptr, false);
  put_one_that_waits(stream(handle(1), true));
  EXPECT_FALSE(runs(null_stream));
}

TEST_F(StreamOrderTest, BlockingStreamsWaitForTheNullStream) {
  put_one_that_waits(stream(nullptr, false));
  EXPECT_FALSE(runs(stream(handle(1), true)));
}

TEST_F(StreamOrderTest, NonBlockingStreamsAndOtherContextsAreNotOrderedWithTheNullStream) {
  const StreamId null_stream = stream(nullptr, false);
  put_one_that_waits(stream(handle(1), false));
  put_one_that_waits(stream(handle(2), true, kOtherContext));
  EXPECT_TRUE(runs(null_stream));
}

TEST_F(StreamOrderTest, StreamsThatTheDeviceOrdersShareAMutex) {
  const StreamId null_stream = stream(nullptr, false);
  const StreamId blocking = stream(handle(1), true);
  const StreamId one = stream(handle(2), false);
  const StreamId other = stream(handle(3), false);
  EXPECT_EQ(&order.mutex_of(null_stream), &order.legacy());
  EXPECT_EQ(&order.mutex_of(blocking), &order.legacy());
  EXPECT_NE(&order.mutex_of(one), &order.legacy());
  EXPECT_NE(&order.mutex_of(one), &order.mutex_of(other));
}

}  // namespace
}  // namespace spillway::cuda
