// Which block leaves instead of the oldest: what is wanted last, where blocks are read in turn.
#include "policy/habits/read_in_turn.h"

#include "policy/asking_world.h"
#include "policy/lookahead.h"

namespace spillway {
namespace {

// Each weight a launch of its own, that is issued when the one before it has ended.
class ReadInTurnTest : public ::testing::Test {
 protected:
  explicit ReadInTurnTest(std::uint64_t device_blocks = 64)
      : world(keeping_clean_copies(device_blocks, 256), lookahead) {}
  std::vector<AllocationId> weights(std::size_t count) {
    std::vector<AllocationId> ids(count);
    for (AllocationId& id : ids) {
      id = world.allocate(kWeight);
      world.run({world.overwrite(id)});
    }
    return ids;
  }
  // The same one each time, by its id.
  void launch(const Access& access) {
    world.issue({.execution = knows_launches ? access.allocation + 1 : kNoExecution,
                 .kind = knows_launches ? std::uint64_t{1} : 0,
                 .accesses = {access}});
    world.finish_all();
    world.end(world.launches);
  }
  // How many blocks come for it.
  long read(const std::vector<AllocationId>& ids, bool written = false) {
    world.forget();
    for (const AllocationId id : ids) {
      launch(written ? world.write(id) : world.read(id));
    }
    return world.blocks_that_came();
  }
  // Two models by turns, each of them so often; in the last four phases.
  long came_by_turns(std::size_t count, int times) {
    const auto one = weights(count);
    const auto other = weights(count);
    long came = 0;
    for (int phase = 0; phase < 64; ++phase) {
      came = phase < 60 ? 0 : came;
      for (int i = 0; i < times; ++i) {
        came += read(phase % 2 == 0 ? one : other);
      }
    }
    return came;
  }
  long after_rounds(int rounds, const std::vector<AllocationId>& ids, bool written = false) {
    for (int i = 0; i < rounds; ++i) {
      read(ids, written);
    }
    return read(ids, written);
  }

  static constexpr std::uint64_t kWeight = 8;
  Lookahead lookahead;
  AskingWorld world;
  bool knows_launches = false;
};

// By age all of it would leave, each time. In the long run as well.
TEST_F(ReadInTurnTest, AsMuchAsThereIsRoomForStays) {
  for (const bool known : {true, false}) {
    knows_launches = known;
    const auto all = weights(16);
    EXPECT_LE(after_rounds(5, all), 72);
    long came = 0;
    for (int round = 0; round < 100; ++round) {
      came += read(all);
    }
    EXPECT_LE(came, 100 * 64 * 115 / 100);
    for (const AllocationId id : all) {
      world.free(id);
    }
  }
}

// It would have to be copied out for that.
TEST_F(ReadInTurnTest, NotOfWhatIsWritten) { EXPECT_EQ(after_rounds(5, weights(16), true), 128); }

// A backward pass wants first what has just been used.
TEST_F(ReadInTurnTest, ToAndFroGoesByAge) {
  auto all = weights(16);
  long came = 0;
  for (int i = 0; i < 10; ++i) {
    came = read(all);
    std::reverse(all.begin(), all.end());
  }
  EXPECT_LE(came, 64);
}

// What a forward pass saves takes the room of weights that it has read, not of those it will read.
TEST_F(ReadInTurnTest, OfWeightsThatAreReadToAndFroThoseGoThatAreWantedLast) {
  const auto all = weights(7);
  std::vector<AllocationId> saved;
  const auto pass = [&] {
    world.forget();
    for (const AllocationId id : all) {
      saved.push_back(world.allocate(kWeight / 2));
      world.run({world.read(id), world.overwrite(saved.back())});
    }
    for (auto id = all.rbegin(); id != all.rend(); ++id) {
      world.run({world.read(*id), world.read(saved.back())});
      world.free(saved.back());
      saved.pop_back();
    }
    return world.blocks_that_came();
  };
  long came = 0;
  for (int i = 0; i < 12; ++i) {
    came = pass();
  }
  EXPECT_EQ(came, 84 - 64) << "less than what is in use at the highest goes and comes";
}

// Each fits, and looks as if it were read in turn when the program comes back to it.
TEST_F(ReadInTurnTest, WhoTurnsToSomethingElseForAWhileIsLeftAlone) {
  EXPECT_LE(came_by_turns(6, 6), 4 * 48 * 5 / 4);  // by age 48 each
}

class ReadInTurnInMore : public ReadInTurnTest {
 protected:
  ReadInTurnInMore() : ReadInTurnTest(112) {}
};

// What came first is of the model that is read, and so is what came last; what lies idle is between
// them, and would stay for all of the phase.
TEST_F(ReadInTurnInMore, WhatLiesIdleLeavesBeforeWhatIsReadInTurn) {
  knows_launches = true;
  EXPECT_LE(came_by_turns(8, 16), 4 * 64 * 5 / 4);
}

class ReadInTurnAlone : public ReadInTurnTest {
 protected:
  ReadInTurnAlone() {
    world.policy.at_launch_end = [&](const Launch& launch, Control& control) {
      world.seen = &control;
      in_turn.ended(launch, control);
    };
    world.policy.at_launch = nullptr;
    world.policy.at_issue = nullptr;
  }
  [[nodiscard]] BlockId first_of(AllocationId id) const {
    return world.engine.space().allocation(id).first_block;
  }
  // By a launch of its own.
  void copy_down(AllocationId id) {
    world.seen->copy_down(first_of(id), Tier::kHost);
    world.run({});
    world.finish_all();
  }
  ReadInTurn in_turn;
};

TEST_F(ReadInTurnAlone, OnlyWhatIsSafeBelowKnownToReturnAndWantedLater) {
  const AllocationId oldest = world.allocate(1);
  const AllocationId newest = world.allocate(1);
  world.run({world.write(oldest)});
  world.run({world.write(newest)});
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 0, *world.seen), kNoBlock);  // used once
  world.run({world.read(newest)});
  world.run({world.read(oldest)});
  world.run({world.read(newest)});
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 0, *world.seen), kNoBlock);  // it is nowhere else
  copy_down(newest);
  world.run({world.read(newest)});
  // Launches 2, 3, 5 and 7 used it: it is expected with launch 9.
  EXPECT_EQ(in_turn.instead_of(first_of(newest), 8, *world.seen), kNoBlock);  // instead of itself
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 9, *world.seen), kNoBlock);
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 8, *world.seen), first_of(newest));
}

// A choice is judged when its block is named again: by then what stayed has to be in use, or to
// have been.
class ReadInTurnJudged : public ReadInTurnAlone {
 protected:
  void choose() {
    oldest = world.allocate(1);
    newest = world.allocate(1);
    world.run({world.write(oldest)});
    world.run({world.write(newest)});
    copy_down(newest);
    world.run({world.read(newest)});
    ASSERT_EQ(in_turn.instead_of(first_of(oldest), 0, *world.seen), first_of(newest));
    in_turn.leaves(first_of(newest), *world.seen);
  }
  // It comes back, and is used.
  [[nodiscard]] bool may_be_chosen_again() {
    Launch launch;
    launch.accesses = {world.read(newest)};
    in_turn.issued(launch, *world.seen);
    if (world.launches > ended) {
      world.finish_all();
      world.end(world.launches);
    }
    world.run({world.read(newest)});
    ended = world.launches;
    const AllocationId other = world.allocate(1);
    return in_turn.instead_of(first_of(other), 0, *world.seen) == first_of(newest);
  }
  AllocationId oldest = 0;
  AllocationId newest = 0;
  std::uint64_t ended = 4;
};

TEST_F(ReadInTurnJudged, WrongIfNobodyHasUsedWhatStayed) {
  choose();
  EXPECT_FALSE(may_be_chosen_again());
}

TEST_F(ReadInTurnJudged, AndThenItGoesByAgeUntilItHasReturned32Times) {
  choose();
  for (int returns = 0; returns < 32; ++returns) {
    EXPECT_FALSE(may_be_chosen_again()) << returns;
    in_turn.leaves(first_of(newest), *world.seen);
  }
  EXPECT_TRUE(may_be_chosen_again());
}

TEST_F(ReadInTurnJudged, RightIfALaunchHasUsedIt) {
  choose();
  world.run({world.read(oldest)});
  ended = world.launches;
  EXPECT_TRUE(may_be_chosen_again());
}

TEST_F(ReadInTurnJudged, RightWhileALaunchUsesIt) {
  choose();
  world.begin({world.read(oldest)});
  ASSERT_GT(world.engine.space().block(first_of(oldest)).pins, 0U);
  EXPECT_TRUE(may_be_chosen_again());
}

TEST_F(ReadInTurnJudged, NeitherIfItIsDead) {
  choose();
  world.free(oldest);
  oldest = world.allocate(2);
  EXPECT_TRUE(may_be_chosen_again());
}

TEST_F(ReadInTurnAlone, LaunchesOfSeveralStreamsEndInAnyOrder) {
  const AllocationId oldest = world.allocate(1);
  const AllocationId block = world.allocate(1);
  world.run({world.write(block)});
  copy_down(block);
  Launch launch;
  launch.accesses = {world.read(block)};
  for (const LaunchSeq seq : {10U, 12U, 11U}) {
    launch.seq = seq;
    in_turn.ended(launch, *world.seen);
  }
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 14, *world.seen), kNoBlock);
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 13, *world.seen), first_of(block));
}

// Another model's weights, while this one writes.
TEST_F(ReadInTurnAlone, WhatWasNotUsedWhenItWasExpectedIsExpectedTheLaterTheLongerThatIs) {
  const AllocationId oldest = world.allocate(1);
  const AllocationId forgotten = world.allocate(1);
  world.run({world.write(oldest)});
  world.run({world.write(forgotten)});
  copy_down(forgotten);
  world.run({world.read(forgotten)});
  world.run({world.read(forgotten)});  // with launch 5, and then with launch 6
  world.run({});
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 6, *world.seen), kNoBlock);
  for (int i = 0; i < 9; ++i) {
    world.run({});
  }
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 25, *world.seen), kNoBlock);
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 24, *world.seen), first_of(forgotten));
}

// A forward and a backward pass.
TEST_F(ReadInTurnAlone, GapsThatAlternateAreKnownWhenTheyHaveDoneSoTwice) {
  const AllocationId oldest = world.allocate(1);
  const AllocationId weight = world.allocate(1);
  world.run({world.write(oldest)});
  world.run({world.write(weight)});
  copy_down(weight);
  const auto use_after = [&](int launches) {
    for (int i = 1; i < launches; ++i) {
      world.run({});
    }
    world.run({world.read(weight)});
  };
  const LaunchSeq first = 3;
  use_after(2);
  use_after(8);
  use_after(2);
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), first + 12 + 2, *world.seen), kNoBlock);
  use_after(8);
  use_after(2);
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), first + 22 + 8, *world.seen), kNoBlock);
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), first + 22 + 7, *world.seen), first_of(weight));
}

}  // namespace
}  // namespace spillway
