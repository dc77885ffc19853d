// What a program holds on to after its last use is sent away there, once it has done so twice.
#include "policy/habits/idle_evictor.h"

#include "engine/engine_world.h"

namespace spillway {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;

class Lingering : public ::testing::Test {
 protected:
  enum : ExecutionId { kMakes, kUses, kUsesOtherwise, kOfOthers };

  Lingering() {
    world.policy.at_issue = [&](const Launch& launch, Control& control) {
      lingerers.issued(named(launch), control);
    };
    world.policy.at_launch_end = [&](const Launch& launch, Control& control) {
      lingerers.ended(named(launch), control);
    };
    world.policy.at_death_said = [&](AllocationId id) { lingerers.dies(id); };
    run(kOfOthers, {world.write(rest)});
  }
  [[nodiscard]] Launch named(Launch launch) const {
    launch.execution = execution;
    return launch;
  }
  void run(ExecutionId kernel, std::vector<Access> accesses) {
    execution = kernel;
    world.run(std::move(accesses));
  }
  void others(int launches) {
    for (int i = 0; i < launches; ++i) {
      run(kOfOthers, {});
    }
  }
  // Used for the last time by this one, and dead so many launches later. True if it left meanwhile.
  bool once(ExecutionId last, int launches) {
    run(kMakes, {world.overwrite(a)});
    world.forget();
    run(last, {world.read(a)});
    others(launches);
    const bool left =
        !world.block(a).copies.has(Tier::kDevice) || world.block(a).queue == PageQueue::kUnused;
    world.discard(a, DiscardMode::kLazy);
    return left;
  }
  // The next time it goes.
  void learn() {
    once(kUses, kLong);
    once(kUses, kLong);
  }
  static constexpr int kLong = 300;
  static constexpr int kShort = 100;

  World world{one_at_a_time(64, 128, 0)};
  IdleEvictor lingerers;
  AllocationId a = world.allocate(16);
  AllocationId rest = world.allocate(48);  // of the device
  ExecutionId execution = kNoExecution;
};

TEST_F(Lingering, ItLeavesBehindItsLastUseTheThirdTime) {
  EXPECT_FALSE(once(kUses, kLong));
  EXPECT_FALSE(once(kUses, kLong));
  EXPECT_TRUE(once(kUses, kLong));
  EXPECT_TRUE(once(kUses, kLong));
}

TEST_F(Lingering, WhatDiesSoonStays) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(once(kUses, kShort));
  }
}

TEST_F(Lingering, TwoMayHaveTheNumberInTurn) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(once(kUses, kLong));
    EXPECT_FALSE(once(kUsesOtherwise, kShort));
  }
  EXPECT_TRUE(once(kUses, kLong));
  EXPECT_FALSE(once(kUsesOtherwise, kShort));
}

TEST_F(Lingering, ItStaysAgainWhenItHasDiedSoon) {
  learn();
  once(kUses, kShort);
  EXPECT_FALSE(once(kUses, kLong));
}

TEST_F(Lingering, WhatWasUsedAfterAllStaysTheNextTime) {
  learn();
  run(kMakes, {world.overwrite(a)});
  run(kUses, {world.read(a)});
  EXPECT_THAT(world.calls(), Contains(StartsWith("pre_evict device>host")));
  others(kLong);
  run(kUsesOtherwise, {world.read(a)});
  world.discard(a, DiscardMode::kLazy);
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(once(kUses, kLong)) << i;
  }
  EXPECT_TRUE(once(kUses, kLong));
}

TEST_F(Lingering, NotWhereThereIsRoom) {
  learn();
  world.free(rest);
  EXPECT_FALSE(once(kUses, kLong));
}

// The second one, on another stream, ends first.
TEST_F(Lingering, BehindWhicheverEndsLast) {
  learn();
  run(kMakes, {world.overwrite(a)});
  world.forget();
  execution = kUses;
  world.begin({world.read(a)}, 1);
  const std::uint64_t first = world.launches;
  world.begin({world.read(a)}, 2);
  world.finish_all();
  world.end(first + 1);
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("pre_evict"))));
  world.end(first);
  EXPECT_THAT(world.calls(), Contains(StartsWith("pre_evict device>host")));
}

TEST_F(Lingering, NotWhileALaunchIsIssuedThatNamesIt) {
  learn();
  run(kMakes, {world.overwrite(a)});
  world.forget();
  execution = kUses;
  world.begin({world.read(a)});
  const std::uint64_t first = world.launches;
  world.begin({world.read(a)});
  world.finish_all();
  world.end(first);
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("pre_evict"))));
  world.end(first + 1);
  EXPECT_THAT(world.calls(), Contains(StartsWith("pre_evict device>host")));
}

}  // namespace
}  // namespace spillway
