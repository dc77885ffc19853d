// What has left comes back before anybody names it, where it did the last time.
#include "policy/habits/reuse_prefetcher.h"

#include "engine/engine_world.h"

namespace spillway {
namespace {

class ReturnersTest : public ::testing::Test {
 protected:
  enum : ExecutionId { kMakes = 1, kMoved, kOfOthers };
  enum : std::uint64_t { kCode = 1, kOtherCode };

  ReturnersTest() {
    world.policy.at_issue = [this](const Launch& launch, Control& control) {
      seen = &control;
      returners.issued(named(launch), control);
    };
    world.policy.at_launch_end = [this](const Launch& launch, Control& control) {
      returners.ended(named(launch), control);
      returners.advance(control);
    };
    world.policy.victim = [this](Cause /*cause*/) {
      const BlockId id = world.engine.space().allocation(kept).first_block;
      returners.leaves(id, *seen);
      return id;
    };
  }
  [[nodiscard]] Launch named(Launch launch) const {
    launch.execution = execution;
    launch.kind = kind;
    return launch;
  }
  void run(ExecutionId kernel, std::uint64_t code, std::vector<Access> accesses) {
    execution = kernel;
    kind = code;
    world.run(std::move(accesses));
  }
  // It is written and has to leave. Whether it is there again a while after there is room.
  bool comes_back_behind(ExecutionId kernel, std::uint64_t code) {
    run(kernel, code, std::vector<Access>(times_named, world.write(kept)));
    const AllocationId more = world.allocate(64);
    run(kOfOthers, kOtherCode, {world.write(more)});
    EXPECT_FALSE(there());
    world.free(more);
    for (int i = 0; i < 8; ++i) {
      run(kOfOthers, kOtherCode, {});
      world.finish_all();
    }
    return there();
  }
  [[nodiscard]] bool there() const { return world.block(kept).copies.has(Tier::kDevice); }

  World world{one_at_a_time(64, 128, 0)};
  ReusePrefetcher returners;
  AllocationId kept = world.allocate(1);
  std::size_t times_named = 1;
  ExecutionId execution = kNoExecution;
  std::uint64_t kind = 0;
  Control* seen = nullptr;
};

TEST_F(ReturnersTest, ItComesBehindTheLaunchBehindWhichItDidTheLastTime) {
  EXPECT_FALSE(comes_back_behind(kMakes, kCode));
  EXPECT_TRUE(comes_back_behind(kMakes, kCode));
}

TEST_F(ReturnersTest, AndBehindTheSameCodeElsewhere) {
  EXPECT_FALSE(comes_back_behind(kMakes, kCode));
  EXPECT_TRUE(comes_back_behind(kMoved, kCode));
}

TEST_F(ReturnersTest, ThatTheLaunchNamesTwice) {
  times_named = 2;
  EXPECT_FALSE(comes_back_behind(kMakes, kCode));
  EXPECT_TRUE(comes_back_behind(kMoved, kCode));
}

TEST_F(ReturnersTest, NotBehindOtherCode) {
  EXPECT_FALSE(comes_back_behind(kMakes, kCode));
  EXPECT_FALSE(comes_back_behind(kMoved, kOtherCode));
}

TEST_F(ReturnersTest, NorBehindTheSameCodeWhereItWasUsedNext) {
  run(kMoved, kCode, {world.write(kept)});
  EXPECT_FALSE(comes_back_behind(kMakes, kCode));
  EXPECT_FALSE(comes_back_behind(kMoved, kCode));
}

}  // namespace
}  // namespace spillway
