// Copies ahead of need: frames that can go at once, and wishes that come to nothing.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;

TEST(PreEviction, LeavesAFrameThatIsReclaimedWithoutATransfer) {
  World world(one_at_a_time(2, 8, 0));
  const auto [a, b] = world.written_blocks<2>();
  world.pre_evict(b);
  EXPECT_THAT(world.calls(), ElementsAre("unmap 1", "pre_evict device>host 1"));
  world.finish();
  EXPECT_EQ(world.block(b).queue, PageQueue::kUnused);
  EXPECT_TRUE(world.block(b).copies.has(Tier::kDevice));
  world.run({world.write(world.allocate(1))});
  EXPECT_THAT(world.calls(), AllOf(Contains("drop 1 device"), no_transfer));
  EXPECT_EQ(world.stats().pre_evictions, 1U);
  EXPECT_EQ(world.stats().reclaimed_unused, 1U);
  EXPECT_EQ(world.stats().evictions, 0U);
}

TEST(PreEviction, IsTakenBackByAUseOfItsBlock) {
  for (const bool prefetched : {false, true}) {
    World world(one_at_a_time(2, 8, 0));
    const AllocationId a = world.allocate(1);
    world.write_all({a});
    world.pre_evict(a);
    world.finish();
    world.forget();
    if (prefetched) {
      world.prefetch(a);
    } else {
      world.begin({world.read(a)});
    }
    EXPECT_THAT(world.calls(), AllOf(Contains("drop 0 host"), Contains("map 0"), no_transfer));
    EXPECT_EQ(world.block(a).queue, PageQueue::kUsed);
  }
}

TEST(PreEviction, ThatWaitsIsForgottenOnceItsBlockIsWanted) {
  for (const bool prefetched : {false, true}) {
    World world(one_at_a_time(2, 8, 0));
    const auto [a, b] = world.written_blocks<2>();
    world.pre_evict(a);
    world.pre_evict(b);  // waits for the lane
    if (prefetched) {
      world.prefetch(b);
    } else {
      world.run({world.read(b)});
    }
    world.finish_all();
    EXPECT_TRUE(world.block(b).mapped);
    EXPECT_EQ(world.stats().pre_evictions, 1U);
  }
}

// A fault waits for the copies ahead of need that a policy counts on; when they come to nothing it
// must not wait for ever.
TEST(PreEviction, AWishThatComesToNothingDoesNotHoldUpAFault) {
  World world(one_at_a_time(2, 1, 1));
  world.written_blocks<2>();  // blocks 0 and 1
  const AllocationId c = world.allocate(1);
  world.engine.set_capacity_below(Tier::kHost, 0);
  world.policy.victim = [](Cause) { return std::nullopt; };
  world.policy.at_launch = [](const Launch&, Control& control) {
    control.pre_evict(0, Tier::kHost);
    control.pre_evict(1, Tier::kHost);
  };
  world.begin({world.write(c)});
  EXPECT_FALSE(world.engine.stuck().has_value());
  world.finish_all();
  EXPECT_TRUE(world.block(c).mapped);
}

TEST(PreEviction, NeedsRoomBelowAndLiveContents) {
  World world(one_at_a_time(3, 1, 0));
  const auto [a, b] = world.written_blocks<2>();
  const AllocationId undefined = world.allocate(1);
  world.run({world.read(undefined)});
  world.forget();
  world.pre_evict(undefined);
  world.pre_evict(a, Tier::kStorage);  // there is none
  world.pre_evict(b);
  world.finish_all();
  world.pre_evict(a);  // host memory is full
  EXPECT_TRUE(world.mechanism.under_way.empty());
  EXPECT_TRUE(world.block(a).mapped);
  EXPECT_EQ(world.stats().pre_evictions, 1U);
}

TEST(PreEviction, DoesNotMoveWhatIsDead) {
  EngineOptions options = one_at_a_time(2, 8, 0);
  options.reclaim_discarded_first = false;  // so that dead blocks stay among the used ones
  World world(options);
  const auto [a, b] = world.written_blocks<2>();
  world.pre_evict(a);
  world.pre_evict(b);  // waits for the lane
  world.discard(b);
  world.pre_evict(b);
  world.finish();
  EXPECT_TRUE(world.mechanism.under_way.empty());
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), kBlockBytes);
}

TEST(PreEviction, MovesABlockInHostMemoryOnToStorage) {
  World world(one_at_a_time(1, 4, 4));
  const auto [a, b] = world.written_blocks<2>();
  world.pre_evict(a, Tier::kStorage);
  EXPECT_THAT(world.calls(), ElementsAre("pre_evict host>storage 0"));
  // Wanted meanwhile: it is fetched from storage once it is there.
  world.begin({world.read(a)});
  world.finish(Cause::kPreEvict);
  world.finish(Cause::kEvict);
  EXPECT_THAT(world.calls(), AllOf(Contains("drop 0 host"), Contains("fault storage>device 0")));
  world.finish();
  EXPECT_TRUE(world.block(a).mapped);
}

}  // namespace
}  // namespace spillway
