#include "platform/sim/simulated_streams.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway::sim {
namespace {

struct StreamsWorld {
  EventQueue clock;
  std::vector<std::uint32_t> reached;
  SimulatedStreams streams{clock, [this](std::uint32_t slot) { reached.push_back(slot); }};

  [[nodiscard]] std::vector<std::uint32_t> first() const {
    std::vector<std::uint32_t> slots;
    streams.for_each_first([&](std::uint32_t slot) { slots.push_back(slot); });
    return slots;
  }
};

TEST(SimulatedStreams, ALaunchIsReachedWhenTheOneBeforeHasEnded) {
  StreamsWorld world;
  world.streams.add_launch(0, 7);
  world.streams.add_launch(0, 8);
  world.streams.add_launch(kNoStream, 9);
  EXPECT_TRUE(world.streams.is_at_head(0, 7));
  EXPECT_FALSE(world.streams.is_at_head(0, 8));
  EXPECT_TRUE(world.streams.is_at_head(kNoStream, 9));
  EXPECT_EQ(world.first(), (std::vector<std::uint32_t>{7, 9}));

  world.clock.pass_until(5);
  world.streams.launch_ended(0, 7);
  world.streams.advance(0);
  EXPECT_EQ(world.reached, std::vector<std::uint32_t>{8});
  EXPECT_EQ(world.streams.free_ns(0), 5);
}

TEST(SimulatedStreams, AStreamStandsAtASignalUntilAnotherRecordsIt) {
  StreamsWorld world;
  world.streams.add_signal(3);
  world.streams.add_wait(3, 1);
  world.streams.advance(1);
  world.streams.add_launch(1, 7);
  EXPECT_FALSE(world.streams.is_at_head(1, 7));

  world.clock.pass_until(4);
  world.streams.add_record(3, 0);
  world.streams.advance(0);
  EXPECT_EQ(world.reached, std::vector<std::uint32_t>{7});
  EXPECT_TRUE(world.streams.is_at_head(1, 7));
  EXPECT_EQ(world.streams.free_ns(1), 4);
}

TEST(SimulatedStreams, ALaunchThatIsTakenBackIsPassedByNobody) {
  StreamsWorld world;
  world.streams.add_launch(0, 7);
  world.streams.take_back_launch(0);
  world.streams.advance(0);
  EXPECT_TRUE(world.reached.empty());
  EXPECT_TRUE(world.first().empty());
}

}  // namespace
}  // namespace spillway::sim
