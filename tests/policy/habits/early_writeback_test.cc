// Of what has been copied down ahead of need, what is used last makes way first.
#include "policy/habits/early_writeback.h"

#include <algorithm>

#include "engine/engine_world.h"
#include "policy/habits/reuse_prefetcher.h"

namespace spillway {
namespace {

// A parameter and its state are written by one launch; others want the room of both, then the
// parameter is used, and much later its state.
class EarlyWritebackTest : public ::testing::Test {
 protected:
  enum : ExecutionId { kOptimizer = 1, kForward, kOfOthers };

  EarlyWritebackTest() {
    world.policy.at_issue = [this](const Launch& launch, Control& control) {
      seen = &control;
      returners.issued(named(launch), control);
    };
    world.policy.at_launch_end = [this](const Launch& launch, Control& control) {
      returners.ended(named(launch), control);
      leavers.ended(named(launch), control);
      leavers.advance(0, control);
    };
    world.policy.victim = [this](Cause /*cause*/) -> std::optional<BlockId> {
      for (const AllocationId id : {parameter, state}) {
        if (seen->evictable(block_of(id))) {
          leaves(id);
          return block_of(id);
        }
      }
      return std::nullopt;
    };
  }
  [[nodiscard]] Launch named(Launch launch) const {
    launch.execution = execution;
    return launch;
  }
  [[nodiscard]] BlockId block_of(AllocationId id) const {
    return world.engine.space().allocation(id).first_block;
  }
  void leaves(AllocationId id) {
    leavers.leaves(block_of(id), *seen);
    returners.leaves(block_of(id), *seen);
  }
  void run(ExecutionId kernel, std::vector<Access> accesses) {
    execution = kernel;
    world.run(std::move(accesses));
    world.finish_all();  // copies
  }
  void others_run(int launches) {
    for (int i = 0; i < launches; ++i) {
      run(kOfOthers, {});
    }
  }
  void optimizer() { run(kOptimizer, {world.write(parameter), world.write(state)}); }
  void both_leave() {
    const AllocationId all = world.allocate(8);
    run(kOfOthers, {world.write(all)});
    world.free(all);
  }
  void forward_and_backward() {
    others_run(2);
    run(kForward, {world.read(parameter)});
    others_run(20);
  }
  [[nodiscard]] std::optional<BlockId> copied() { return leavers.copied(*seen, returners); }

  [[nodiscard]] static EngineOptions options(std::uint64_t device = 8, std::uint64_t host = 32) {
    EngineOptions options = one_at_a_time(device, host, 0);
    options.clean_copies = CleanCopies::kAll;
    return options;
  }

  World world{options()};
  EarlyWriteback leavers;
  ReusePrefetcher returners;
  AllocationId parameter = world.allocate(1);
  AllocationId state = world.allocate(1);
  ExecutionId execution = kNoExecution;
  Control* seen = nullptr;
};

TEST_F(EarlyWritebackTest, NothingHasBeenCopiedBeforeAnythingHadToLeave) {
  optimizer();
  others_run(2);
  EXPECT_EQ(copied(), std::nullopt);
}

// One that does not come when it did the last time is expected as far ahead as its last use is
// back.
TEST_F(EarlyWritebackTest, WhatDoesNotComeLeavesOnceItHasBeenAwaitedForLonger) {
  optimizer();
  both_leave();
  others_run(2);
  run(kForward, {world.read(state)});
  others_run(40);
  run(kForward, {world.read(parameter)});
  optimizer();
  others_run(10);
  EXPECT_EQ(copied(), block_of(parameter));
  others_run(20);
  EXPECT_EQ(copied(), block_of(state));
}

// It may be a little late.
TEST_F(EarlyWritebackTest, WhatIsDueStays) {
  optimizer();
  both_leave();
  others_run(15);
  run(kForward, {world.read(state)});
  run(kForward, {world.read(parameter)});
  optimizer();
  others_run(18);
  EXPECT_EQ(copied(), block_of(parameter));
}

class LeaversOfCopies : public EarlyWritebackTest {
 protected:
  // Both have been copied down, of which the state is used last.
  LeaversOfCopies() {
    optimizer();
    both_leave();
    forward_and_backward();
    optimizer();
    others_run(2);
    EXPECT_EQ(copied(), block_of(state));
  }
};

TEST_F(LeaversOfCopies, WhatIsUsedLastLeavesFirstByWhatItDidTheLastTime) {
  ASSERT_TRUE(world.block(parameter).copies.has(Tier::kHost));
  ASSERT_TRUE(world.block(state).copies.has(Tier::kHost));
  EXPECT_EQ(copied(), block_of(state));
  leaves(state);
  EXPECT_EQ(copied(), block_of(parameter));
}

TEST_F(LeaversOfCopies, WhatALaunchUsesStays) {
  world.begin({world.read(state)});
  EXPECT_EQ(copied(), block_of(parameter));
}

TEST_F(LeaversOfCopies, AndWhatOneWillUseThatIsOnlyIssued) {
  world.policy.admitted_at_once.launches_per_stream = 1;
  constexpr StreamId kStream = 1;
  world.begin({}, kStream);
  world.begin({world.read(state)}, kStream);
  ASSERT_EQ(world.block(state).pins, 0U);
  EXPECT_EQ(copied(), block_of(parameter));
}

TEST_F(LeaversOfCopies, WhatHasBeenWrittenSinceStays) {
  run(kForward, {world.write(state)});
  EXPECT_EQ(copied(), block_of(parameter));
}

TEST_F(LeaversOfCopies, WhatIsFreedIsGone) {
  world.free(state);
  EXPECT_EQ(copied(), block_of(parameter));
  world.free(parameter);
  EXPECT_EQ(copied(), std::nullopt);
}

TEST_F(EarlyWritebackTest, WhatIsOnItsWayDownStays) {
  optimizer();
  both_leave();
  forward_and_backward();
  execution = kOptimizer;
  world.run({world.write(parameter), world.write(state)});
  ASSERT_NE(world.block(parameter).transfer, kNoIndex);
  EXPECT_EQ(copied(), std::nullopt);
  world.finish();
  ASSERT_NE(world.block(state).transfer, kNoIndex);
  EXPECT_EQ(copied(), block_of(parameter));
  world.finish();
  EXPECT_EQ(copied(), block_of(state));
}

// Others than the policy may send away: they are found again behind all that has left so.
TEST_F(EarlyWritebackTest, WhatHasLeftOtherwiseHidesNothing) {
  constexpr std::size_t kMany = 1500;
  World large{options(kMany + 64, 2 * kMany)};
  std::vector<AllocationId> all(kMany);
  std::generate(all.begin(), all.end(), [&] { return large.allocate(1); });
  EarlyWriteback of_large;
  Control* control = nullptr;
  const auto first_block = [&](AllocationId id) {
    return large.engine.space().allocation(id).first_block;
  };
  large.policy.at_issue = [&](const Launch& /*launch*/, Control& it) { control = &it; };
  large.policy.at_launch_end = [&](const Launch& launch, Control& /*it*/) {
    Launch by = launch;
    by.execution = kOptimizer;
    of_large.ended(by, *control);
    of_large.advance(0, *control);
  };
  const auto write_all = [&] {
    for (const AllocationId id : all) {
      large.run({large.write(id)});
      large.finish_all();
    }
  };
  write_all();
  for (const AllocationId id : all) {
    of_large.leaves(first_block(id), *control);
  }
  write_all();
  large.run({});
  large.finish_all();
  ASSERT_EQ(of_large.copied(*control, returners), first_block(all.front()));
  // All but the last leave, and nobody tells of it.
  ASSERT_TRUE(large.engine.set_device_capacity(kBlockBytes));
  large.finish_all();
  ASSERT_FALSE(large.block(all.front()).copies.has(Tier::kDevice));
  ASSERT_TRUE(large.block(all.back()).copies.has(Tier::kDevice));
  EXPECT_EQ(of_large.copied(*control, returners), first_block(all.back()));
}

}  // namespace
}  // namespace spillway
