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

// --- What the program asks for, in the order of its launches -------------------------------------

EngineOptions launches_in_turn(std::uint64_t device) {
  EngineOptions options = one_at_a_time(device, 8, 0);
  options.window.launches_per_stream = 1;
  return options;
}

TEST(AskedPreEviction, ComesBehindTheLaunchesThatWereIssued) {
  World world(one_at_a_time(2, 8, 0));
  const auto [a, b] = world.written_blocks<2>();
  world.begin({world.write(a)}, 0);  // 3
  world.engine.pre_evict_behind({.accesses = {world.read(a)}});
  EXPECT_THAT(world.calls(), no_transfer);
  world.end(3);
  EXPECT_THAT(world.calls(), Contains("pre_evict device>host 0"));
  world.finish();
  EXPECT_EQ(world.block(a).queue, PageQueue::kUnused);
}

TEST(AskedPreEviction, GoesToTheTierThatIsAskedFor) {
  World world(one_at_a_time(2, 8, 8));
  const auto [a, b] = world.written_blocks<2>();
  world.engine.pre_evict_behind({.accesses = {world.read(a)}}, Tier::kStorage);
  world.engine.pre_evict_behind({.accesses = {world.read(b)}});
  world.finish_all();
  EXPECT_TRUE(world.block(a).copies.has(Tier::kStorage));
  EXPECT_TRUE(world.block(b).copies.has(Tier::kHost));
}

TEST(AskedPreEviction, IsVoidWhereALaunchBehindItUsesTheBlock) {
  World world(launches_in_turn(2));
  const auto [a, b] = world.written_blocks<2>();
  world.begin({world.write(a)}, 0);  // 3
  world.engine.pre_evict_behind({.accesses = {world.read(a)}});
  world.begin({world.read(b)}, 0);  // 4
  world.begin({world.read(a)}, 0);  // 5, which is issued when 3 ends
  world.end(3);
  world.end(4);
  world.end(5);
  EXPECT_THAT(world.calls(), no_transfer);
}

TEST(AskedPreEviction, IsTakenBackByAPrefetchThatIsAskedForBehindIt) {
  World world(one_at_a_time(2, 8, 0));
  const auto [a, b] = world.written_blocks<2>();
  world.begin({world.write(a)}, 0);  // 3
  world.engine.pre_evict_behind({.accesses = {world.read(a)}});
  world.engine.prefetch_behind({.accesses = {world.read(a)}});
  world.end(3);
  EXPECT_THAT(world.calls(), no_transfer);
}

// With five blocks written and three frames, the first two are in host memory. A twentieth of the
// device is spared: one free frame is too little, two are enough for one block.
TEST(AskedPrefetch, ComesInTheOrderOfTheCallsIntoRoomThatNobodyNeeds) {
  World world(one_at_a_time(3, 8, 0));
  const auto [a, b, c, d, e] = world.written_blocks<5>();
  const std::uint64_t evictions = world.stats().evictions;
  world.engine.prefetch_behind({.accesses = {world.read(b)}});
  world.engine.prefetch_behind({.accesses = {world.read(a)}});
  world.free(c);
  EXPECT_THAT(world.calls(), no_transfer);
  world.engine.pre_evict_behind({.accesses = {world.read(d)}});  // nobody uses it: at once
  world.finish(Cause::kPreEvict);
  EXPECT_THAT(world.calls(), Contains("prefetch host>device 1"));
  world.finish_all();
  EXPECT_FALSE(world.block(a).copies.has(Tier::kDevice));
  world.free(b);  // as much room again
  EXPECT_THAT(world.calls(), Contains("prefetch host>device 0"));
  world.finish_all();
  EXPECT_EQ(world.stats().evictions, evictions);
}

TEST(AskedPrefetch, WaitsUntilTheLaunchesBeforeItAreAdmitted) {
  World world(launches_in_turn(4));
  const auto [a, b, c, d, e] = world.written_blocks<5>();
  world.begin({world.read(b)}, 0);  // 6
  world.begin({world.read(c)}, 0);  // 7
  world.engine.prefetch_behind({.accesses = {world.read(a)}});
  world.free(d);
  world.free(e);
  EXPECT_THAT(world.calls(), no_transfer);
  world.end(6);  // 7 is admitted
  EXPECT_THAT(world.calls(), Contains("prefetch host>device 0"));
  world.finish_all();
  world.end(7);
}

TEST(AskedPrefetch, OfWhatIsFreedMeanwhileComesToNothing) {
  World world(one_at_a_time(3, 8, 0));
  const auto [a, b, c, d] = world.written_blocks<4>();
  world.engine.prefetch_behind({.accesses = {world.read(a)}});
  world.free(a);
  world.free(b);
  world.free(c);
  EXPECT_THAT(world.calls(), no_transfer);
}

}  // namespace
}  // namespace spillway
