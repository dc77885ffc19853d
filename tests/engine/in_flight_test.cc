// Many launches in flight: who is admitted when, on streams that wait for each other.
#include <numeric>

#include "base/rng.h"
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

[[nodiscard]] bool released(const World& world, std::uint64_t launch) {
  return testing::Value(world.mechanism.calls, Contains(fmt::format("ready {}", launch)));
}

// The tags of those that were released, in their order.
std::vector<std::uint64_t> released_launches(World& world) {
  std::vector<std::uint64_t> tags;
  for (const std::string& call : world.calls()) {
    if (call.rfind("ready ", 0) == 0) {
      tags.push_back(std::stoull(call.substr(6)));
    }
  }
  return tags;
}

TEST(InFlight, AThousandLaunchesAreIssuedBeforeOneEndsAndAdmittedInTheirOrder) {
  World world(one_at_a_time(8, 64, 0));
  const std::vector<AllocationId> ids = world.allocate_single_blocks(40);
  Rng rng(3);
  std::size_t in_a_row = 0;
  for (int i = 0; i < 1000; ++i) {
    world.begin({world.read(ids[rng.below(40)]), world.write(ids[rng.below(40)])},
                static_cast<StreamId>(rng.below(4)));
  }
  EXPECT_GT(world.engine.pending_uses().waiting(), 980U);
  std::uint64_t ended = 0;
  while (ended < 1000) {
    for (const std::uint64_t tag : released_launches(world)) {
      EXPECT_GE(tag + 8, ended);
      world.end(tag);
      in_a_row += tag == ++ended ? 1U : 0U;
    }
    if (!world.mechanism.under_way.empty()) {
      world.finish();
    }
    ASSERT_FALSE(world.engine.stuck().has_value());
  }
  EXPECT_GT(in_a_row, 500U);
  EXPECT_EQ(world.engine.pending_uses().waiting(), 0U);
  EXPECT_EQ(world.stats().launches, 1000U);
}

TEST(InFlight, AWindowInBytesHoldsThemWhereTheDeviceWouldNot) {
  World world(one_at_a_time(16, 16, 0));
  world.policy.admitted_at_once.bytes = 3 * kBlockBytes;
  const std::vector<AllocationId> ids = world.allocate_single_blocks(6);
  const AllocationId large = world.allocate(5);
  for (const AllocationId id : ids) {
    world.begin({world.write(id)}, 0);
  }
  world.begin({world.write(large)}, 1);  // more than the window: it comes when nothing else is held
  world.begin({world.write(ids[0])}, 2);
  EXPECT_THAT(released_launches(world), ElementsAre(1, 2, 3));
  for (const std::uint64_t launch : {2U, 1U, 3U}) {
    world.end(launch);
  }
  EXPECT_THAT(released_launches(world), ElementsAre(4, 5, 6));
  world.end(4);
  world.end(5);
  EXPECT_THAT(released_launches(world), IsEmpty());
  world.end(6);
  EXPECT_THAT(released_launches(world), ElementsAre(7));
  world.end(7);
  EXPECT_THAT(released_launches(world), ElementsAre(8));
  world.end(8);
}

TEST(InFlight, AWindowOfOneAdmitsALaunchWhenItsPredecessorEnds) {
  World world(one_at_a_time(16, 16, 0));
  world.policy.admitted_at_once.launches_per_stream = 1;
  const AllocationId a = world.allocate(1);
  for (const StreamId stream : {0U, 0U, 1U, 0U, kNoStream, kNoStream}) {
    world.begin({world.read(a)}, stream);
  }
  EXPECT_THAT(released_launches(world), ElementsAre(1, 3, 5, 6));
  world.end(3);
  world.end(5);
  EXPECT_THAT(released_launches(world), IsEmpty());
  world.end(1);
  EXPECT_THAT(released_launches(world), ElementsAre(2));
  world.policy.admitted_at_once = {};  // asked at the next admission
  world.end(2);
  EXPECT_THAT(released_launches(world), ElementsAre(4));
  world.end(4);
  world.end(6);
}

// A policy that narrows its window when it hears of a launch: that launch waits after all, and is
// part of the future like any other.
TEST(InFlight, AWindowThatIsNarrowedAtTheIssueHoldsTheLaunchThatWasIssued) {
  World world(one_at_a_time(16, 16, 0));
  const std::vector<AllocationId> ids = world.allocate_single_blocks(2);
  world.begin({world.write(ids[0])}, 0);
  world.policy.at_issue = [&](const Launch&, Control&) {
    world.policy.admitted_at_once.bytes = kBlockBytes;
  };
  world.begin({world.write(ids[1])}, 0);
  EXPECT_EQ(world.engine.pending_uses().waiting(), 1U);
  EXPECT_EQ(
      world.engine.pending_uses().next_use(world.engine.space().allocation(ids[1]).first_block),
      2U);
  EXPECT_THAT(released_launches(world), ElementsAre(1));
  world.end(1);
  EXPECT_THAT(released_launches(world), ElementsAre(2));
  world.end(2);
  EXPECT_EQ(world.engine.pending_uses().waiting(), 0U);
}

TEST(InFlight, WhatIsIssuedBehindAWaitComesBehindTheRecording) {
  World world(one_at_a_time(2, 16, 0));
  const std::vector<AllocationId> ids = world.allocate_single_blocks(4);
  const SignalId signal = world.engine.create_signal();
  world.engine.wait_for_signal(signal, 1);  // before it is recorded
  world.begin({world.write(ids[0])}, 1);    // 1
  world.begin({world.write(ids[1]), world.write(ids[2])}, 0);
  world.begin({world.write(ids[3])}, 0);
  EXPECT_THAT(released_launches(world), ElementsAre(2));
  world.engine.record_signal(signal, 0);
  world.check();
  EXPECT_THAT(released_launches(world), IsEmpty());  // the third one has not been admitted
  world.end(2);
  world.finish_all();
  // The first one was issued first, and is offered when the third has been admitted.
  EXPECT_THAT(released_launches(world), ElementsAre(3, 1));
  world.end(1);
  world.end(3);
}

// A launch behind one that finds no room is no launch whose end could make any.
TEST(InFlight, WhatStandsBehindALaunchWithoutRoomDoesNotRun) {
  World world(one_at_a_time(3, 0, 0));
  const auto [a, b, alive] = world.written_blocks<3>();
  const AllocationId c = world.allocate(1);
  const LaunchAdmission first = world.begin({world.read(a)}, 1);
  EXPECT_EQ(first.state, LaunchState::kReady);
  EXPECT_EQ(world.begin({world.write(c)}, 0).state, LaunchState::kWaiting);
  EXPECT_FALSE(world.engine.stuck().has_value());  // the first one may free what it uses
  EXPECT_EQ(world.begin({world.read(b)}, 0).state, LaunchState::kReady);
  world.engine.end_launch(first.id);
  EXPECT_TRUE(world.engine.stuck().has_value());
}

TEST(InFlight, AStreamWhoseSignalNobodyRecordsHoldsOnlyItself) {
  World world(one_at_a_time(2, 16, 0));
  const std::vector<AllocationId> ids = world.allocate_single_blocks(3);
  const SignalId signal = world.engine.create_signal();
  world.engine.wait_for_signal(signal, 1);
  world.begin({world.write(ids[0]), world.write(ids[1])}, 1);
  for (int i = 0; i < 5; ++i) {
    world.run({world.write(ids[2])});
  }
  EXPECT_FALSE(world.engine.stuck().has_value());  // it is the program that stands, not the engine
  EXPECT_FALSE(released(world, 1));
  EXPECT_EQ(world.engine.fit({.accesses = {world.read(ids[0])}}).state, LaunchState::kReady);
  world.engine.record_signal(signal, 2);  // on which nothing stands
  world.finish_all();
  EXPECT_TRUE(released(world, 1));
  world.end(1);
}

// docs/engine.md, "Nothing waits for ever": every launch that fits alone ends, whatever streams
// wait for each other, as long as every signal is recorded some day. Launches that may run end in
// any order that their streams allow; transfers end in any order, and fail.
TEST(InFlight, EveryLaunchThatFitsAloneEnds) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    EngineOptions options = one_at_a_time(4 + rng.below(4), 64, 0);
    options.release_early = rng.chance(0.5);
    options.batches_in_flight = static_cast<std::uint32_t>(1 + rng.below(3));
    options.frames_have_sizes = rng.chance(0.5);
    options.failures_in_a_row_max = 1000;
    World world(options);
    if (rng.chance(0.5)) {
      world.policy.admitted_at_once.launches_per_stream =
          static_cast<std::uint32_t>(1 + rng.below(3));
    }
    if (rng.chance(0.3)) {
      world.policy.admitted_at_once.bytes = (1 + rng.below(4)) * kBlockBytes;
    }
    std::vector<AllocationId> ids = world.allocate_single_blocks(10);
    ids.push_back(world.allocate(4));
    ids.push_back(world.allocate_bytes(5000));
    const std::size_t streams = 1 + rng.below(5);
    // The last stream waits for nobody, and records what others wait for already.
    std::vector<SignalId> recorded;
    std::vector<SignalId> promised;
    std::vector<StreamId> stream_of(1);
    std::vector<std::uint64_t> may_end;
    std::size_t ended = 0;
    const auto proceed = [&] {
      for (const std::uint64_t tag : released_launches(world)) {
        if (!testing::Value(may_end, Contains(tag))) {  // a failed transfer recalls a launch
          may_end.push_back(tag);
        }
      }
      if (!world.mechanism.under_way.empty() && rng.chance(0.7)) {
        std::swap(world.mechanism.under_way.front(),
                  world.mechanism.under_way[rng.below(world.mechanism.under_way.size())]);
        rng.chance(0.1) ? world.fail() : world.finish();
        return;
      }
      // With release_early one that was released may still wait for its transfers.
      if (may_end.empty() || (options.release_early && !world.mechanism.under_way.empty())) {
        return;
      }
      std::swap(may_end[rng.below(may_end.size())], may_end.back());
      const auto first = std::min_element(may_end.begin(), may_end.end(), [&](auto a, auto b) {
        return std::make_pair(stream_of[a] != stream_of[may_end.back()], a) <
               std::make_pair(stream_of[b] != stream_of[may_end.back()], b);
      });
      world.end(*first);
      may_end.erase(first);
      ++ended;
    };
    for (int step = 0; step < 150; ++step) {
      const auto stream = static_cast<StreamId>(rng.below(streams + 1));
      const double what = rng.uniform();
      if (what < 0.5) {
        std::vector<Access> accesses;
        for (auto operands = rng.below(4); operands > 0; --operands) {
          accesses.push_back(
              world.use(ids[rng.below(ids.size())], static_cast<AccessMode>(rng.below(4))));
        }
        stream_of.push_back(stream);
        if (world.begin(accesses, stream).state == LaunchState::kTooLarge) {
          ++ended;
        }
      } else if (what < 0.6 && stream < streams) {
        promised.push_back(world.engine.create_signal());
        world.engine.wait_for_signal(promised.back(), stream);
      } else if (what < 0.7) {
        recorded.push_back(world.engine.create_signal());
        world.engine.record_signal(recorded.back(), stream);
      } else if (what < 0.85 && stream < streams && !recorded.empty()) {
        world.engine.wait_for_signal(recorded[rng.below(recorded.size())], stream);
      } else {
        proceed();
      }
      world.check();
    }
    for (const SignalId signal : promised) {
      world.engine.record_signal(signal, static_cast<StreamId>(streams));
    }
    for (int step = 0; step < 20'000 && ended < world.launches; ++step) {
      proceed();
    }
    ASSERT_EQ(ended, world.launches) << "seed " << seed;
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace spillway
