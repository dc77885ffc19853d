// What has to be given up goes by habit the next time, and no longer than it needs to.
#include "policy/habits/given_up.h"

#include "engine/engine_world.h"

namespace spillway {
namespace {

using ::testing::SizeIs;

// Room for four blocks. Of `a`, of one block, a launch can make what it holds again.
class ByHabit : public ::testing::Test {
 protected:
  enum : ExecutionId { kMakes, kUses, kUsesOtherwise, kMakesAgain, kOfOthers };

  explicit ByHabit(std::uint64_t room_blocks = 4, std::uint64_t a_blocks = 1)
      : world(one_at_a_time(room_blocks, 8, 0)), a(world.allocate(a_blocks)) {
    world.policy.gives_up = true;
    world.policy.at_issue = [&](const Launch& launch, Control& /*control*/) {
      habit.issued(launch);
    };
    world.policy.at_death_said = [&](AllocationId id) { habit.dies(id); };
    world.policy.at_launch = [&](const Launch& launch, Control& control) {
      habit.admitted(launch, control);
    };
    world.policy.at_launch_end = [&](const Launch& launch, Control& control) {
      Launch named = launch;
      named.execution = execution;
      habit.ended(named, control);
    };
    world.policy.at_give_up = [&](AllocationId id) { habit.leaves(id); };
    world.policy.victim = [&](Cause) -> std::optional<BlockId> {
      return world.engine.space().allocation(a).first_block;
    };
  }
  void run(ExecutionId kernel, std::vector<Access> accesses) {
    execution = kernel;
    world.run(std::move(accesses));
  }
  void make() {
    run(kMakes, {world.overwrite(a)});
    world.engine.set_recomputable(a, true);
  }
  void make_and_use() {
    make();
    run(kUses, {world.read(a)});
  }
  void come_back_and_die() {
    run(kMakesAgain, {world.overwrite(a)});
    world.discard(a, DiscardMode::kLazy);
  }
  // Others need all of the room.
  void press() {
    for (const AllocationId id : world.allocate_single_blocks(4)) {
      run(kOfOthers, {world.write(id)});
      others.push_back(id);
    }
  }
  void relax() {
    for (const AllocationId id : others) {
      world.free(id);
    }
    others.clear();
  }
  // Once around, under pressure.
  void learn() {
    make_and_use();
    press();
    ASSERT_THAT(world.mechanism.given_up, SizeIs(1));
    relax();
    come_back_and_die();
  }

  World world;
  GivenUp habit;
  AllocationId a;
  std::vector<AllocationId> others;
  ExecutionId execution = kNoExecution;
};

TEST_F(ByHabit, ItGoesBehindTheLaunchBehindWhichItHadToGo) {
  learn();
  make();
  run(kUsesOtherwise, {world.read(a)});
  EXPECT_THAT(world.mechanism.given_up, SizeIs(1));
  run(kUses, {world.read(a)});
  EXPECT_THAT(world.mechanism.given_up, SizeIs(2));
  EXPECT_EQ(world.block(a).contents, Contents::kDiscarded);
}

TEST_F(ByHabit, NotWhileALaunchIsIssuedThatNamesIt) {
  learn();
  make();
  execution = kUses;
  world.begin({world.read(a)});
  const std::uint64_t first = world.launches;
  world.begin({world.read(a)});
  world.finish_all();
  world.end(first);
  EXPECT_THAT(world.mechanism.given_up, SizeIs(1));
  world.end(first + 1);
  EXPECT_THAT(world.mechanism.given_up, SizeIs(2));
}

TEST_F(ByHabit, NotWhatNoLaunchCanMakeAgainUntilOneCan) {
  learn();
  run(kMakes, {world.overwrite(a)});
  run(kUses, {world.read(a)});
  EXPECT_THAT(world.mechanism.given_up, SizeIs(1));
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
  // It was not known yet that it still is what the launch made.
  world.engine.set_recomputable(a, true);
  run(kOfOthers, {world.write(world.allocate(1))});  // for which there is room
  EXPECT_THAT(world.mechanism.given_up, SizeIs(2));
  EXPECT_EQ(world.block(a).contents, Contents::kDiscarded);
  EXPECT_TRUE(world.block(a).frames.has(Tier::kDevice));  // whoever wants one has it
}

TEST_F(ByHabit, NotWhatHasBeenUsedOtherwiseSince) {
  learn();
  run(kMakes, {world.overwrite(a)});
  run(kUses, {world.read(a)});
  run(kUsesOtherwise, {world.read(a)});
  world.engine.set_recomputable(a, true);
  run(kOfOthers, {world.write(world.allocate(1))});
  EXPECT_THAT(world.mechanism.given_up, SizeIs(1));
}

TEST_F(ByHabit, WhatNeedNotHaveGoneStaysTheNextTime) {
  learn();
  const auto around = [&] {
    make_and_use();
    come_back_and_die();  // there has always been room
  };
  around();
  EXPECT_THAT(world.mechanism.given_up, SizeIs(2));
  around();
  EXPECT_THAT(world.mechanism.given_up, SizeIs(2));
}

// Of two blocks in room for three: its own frames, which it has kept, were spare as well.
class ByHabitOfTwoInThree : public ByHabit {
 protected:
  ByHabitOfTwoInThree() : ByHabit(3, 2) {}
};

TEST_F(ByHabitOfTwoInThree, WhatNeedNotHaveGoneStaysTheNextTime) {
  learn();
  for (int i = 0; i < 2; ++i) {
    make_and_use();
    come_back_and_die();
  }
  EXPECT_THAT(world.mechanism.given_up, SizeIs(2));
}

// However often a launch names it.
TEST_F(ByHabitOfTwoInThree, ItsFramesCountOnce) {
  const AllocationId b = world.allocate(1);
  const auto around = [&] {
    make_and_use();
    run(kMakes, {world.overwrite(b)});
    world.engine.set_recomputable(b, true);
    run(kUses, {world.read(b)});
    run(kMakesAgain, {world.overwrite(a), world.read(a)});
    run(kMakesAgain, {world.overwrite(b)});
    world.discard(a, DiscardMode::kLazy);
    world.discard(b, DiscardMode::kLazy);
  };
  learn();
  around();
  const std::size_t times = world.mechanism.given_up.size();
  around();
  EXPECT_EQ(world.mechanism.given_up.size(), times);
}

// What dies without having been made again does not count as having come back.
TEST_F(ByHabit, WhatDiesWhileItIsGoneHasNotComeBack) {
  learn();
  for (std::size_t times = 2; times < 5; ++times) {
    make_and_use();
    EXPECT_THAT(world.mechanism.given_up, SizeIs(times));
    world.discard(a, DiscardMode::kLazy);
  }
}

TEST_F(ByHabit, WhatHadToGoGoesTheNextTimeToo) {
  learn();
  for (std::size_t times = 2; times < 5; ++times) {
    make_and_use();
    EXPECT_THAT(world.mechanism.given_up, SizeIs(times));
    press();
    relax();
    come_back_and_die();
  }
}

TEST_F(ByHabit, ANumberMayBeThatOfTwoInTurn) {
  learn();
  run(kMakes, {world.overwrite(a)});
  world.engine.set_recomputable(a, true);
  run(kUsesOtherwise, {world.read(a)});
  press();  // has to go behind that one, too
  relax();
  EXPECT_THAT(world.mechanism.given_up, SizeIs(2));
  std::size_t times = 2;
  for (const ExecutionId use : {kUses, kUsesOtherwise}) {
    make();
    run(use, {world.read(a)});
    EXPECT_THAT(world.mechanism.given_up, SizeIs(++times));  // before anything presses
    press();
    relax();
  }
  EXPECT_THAT(world.mechanism.given_up, SizeIs(4));
}

}  // namespace
}  // namespace spillway
