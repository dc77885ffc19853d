// Contents that can be made again are given up rather than copied. docs/cuda.md.
#include "engine/launches/recomputable.h"

#include "engine/engine_world.h"

namespace spillway {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Recomputable, TheOldestOfTheFirstFewThatMay) {
  Recomputable list;
  list.add(3);
  list.add(1);
  list.add(3);
  const auto any = [](AllocationId) { return true; };
  EXPECT_EQ(list.first(any), 3U);
  EXPECT_EQ(list.first([](AllocationId id) { return id == 1; }), 1U);
  list.remove(3);
  list.remove(7);
  EXPECT_EQ(list.first(any), 1U);
  list.remove(1);
  EXPECT_EQ(list.first(any), kNoAllocation);
}

// Two blocks of room; what lies there is written and would have to be copied out.
class GivingUp : public ::testing::Test {
 protected:
  GivingUp() { world.policy.gives_up = true; }
  World world{one_at_a_time(2, 8, 0)};
};

TEST_F(GivingUp, NothingIsCopied) {
  const auto [a, b] = world.written_blocks<2>();
  world.engine.set_recomputable(a, true);
  world.run({world.write(world.allocate(1))});
  EXPECT_THAT(world.calls(), no_transfer);
  EXPECT_THAT(world.mechanism.given_up, ElementsAre(a));
  EXPECT_EQ(world.stats().given_up_bytes, kBlockBytes);
  EXPECT_TRUE(world.block(a).frames.empty());
  // It is made again, and needs no more than a frame.
  world.forget();
  world.run({world.overwrite(a)});
  EXPECT_THAT(world.calls(), Not(Contains(testing::HasSubstr("host>device"))));
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
  // Once: it is memory like any other then.
  world.run({world.write(b), world.read(b)});
  world.run({world.write(world.allocate(1))});
  EXPECT_THAT(world.mechanism.given_up, ElementsAre(a));
}

TEST_F(GivingUp, AllOfItWhereverItLies) {
  const AllocationId a = world.allocate(2);
  world.run({world.write(a)});
  world.run({world.write(world.allocate(1))});  // one block of it has to leave
  world.engine.set_recomputable(a, true);
  const Bytes used = world.engine.used_bytes(Tier::kHost);
  ASSERT_GT(used, 0U);
  world.policy.victim = [&](Cause) {
    return std::optional(world.engine.space().allocation(a).first_block + 1);
  };
  world.run({world.write(world.allocate(1))});
  EXPECT_THAT(world.mechanism.given_up, ElementsAre(a));
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
}

TEST_F(GivingUp, NotWhatALaunchInFlightNames) {
  const auto [a, b] = world.written_blocks<2>();
  world.engine.set_recomputable(a, true);
  world.begin({world.read(a)});
  world.begin({world.write(world.allocate(1))});
  EXPECT_THAT(world.mechanism.given_up, IsEmpty());
  world.finish_all();
}

TEST_F(GivingUp, NotWhatCanBeMadeNoMoreOrIsDead) {
  const auto [a, b] = world.written_blocks<2>();
  world.engine.set_recomputable(a, true);
  world.engine.set_recomputable(b, true);
  world.engine.set_recomputable(a, false);
  world.engine.discard(b, DiscardMode::kLazy);
  world.run({world.write(world.allocate(1))});
  world.run({world.write(world.allocate(1))});
  EXPECT_THAT(world.mechanism.given_up, IsEmpty());
}

TEST_F(GivingUp, OnlyUnderAPolicyThatWantsIt) {
  world.policy.gives_up = false;
  const auto [a, b] = world.written_blocks<2>();
  world.engine.set_recomputable(a, true);
  world.run({world.write(world.allocate(1))});
  EXPECT_THAT(world.mechanism.given_up, IsEmpty());
  EXPECT_THAT(world.calls(), Contains(testing::HasSubstr("evict device>host")));
}

// Where no tier has room for a copy.
TEST(GivingUpAlone, MakesRoomWhereNothingCouldLeave) {
  World world(one_at_a_time(2, 0, 0));
  world.policy.gives_up = true;
  const auto [a, b] = world.written_blocks<2>();
  world.engine.set_recomputable(a, true);
  world.policy.victim = [&](Cause) {
    return std::optional(world.engine.space().allocation(a).first_block);
  };
  world.run({world.write(world.allocate(1))});
  EXPECT_THAT(world.mechanism.given_up, ElementsAre(a));
}

}  // namespace
}  // namespace spillway
