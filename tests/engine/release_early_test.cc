// Devices that can wait by themselves: launches are released with the transfers that they must wait
// for, and released again where one of those fails.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

EngineOptions early(std::uint64_t device, std::uint64_t host) {
  EngineOptions options = one_at_a_time(device, host, 0);
  options.release_early = true;
  options.host_batch_bytes = 16 * kBlockBytes;
  return options;
}

// Blocks 0 to count - 1 of one allocation, all below.
AllocationId all_below(World& world, std::uint64_t count, std::uint64_t device) {
  const AllocationId a = world.allocate(count);
  const AllocationId filler = world.allocate(device);
  world.write_all({a, filler});
  world.free(filler);
  world.forget();
  return a;
}

TEST(ReleaseEarly, WithTheTransfersThatItMustWaitFor) {
  World world(early(4, 8));
  const AllocationId a = all_below(world, 2, 4);
  EXPECT_EQ(world.begin({world.read(a)}, 0).state, LaunchState::kReady);
  EXPECT_THAT(world.calls(), ElementsAre("map 0", "map 1", "fault host>device 0 1", "ready 3"));
  ASSERT_EQ(world.mechanism.under_way.size(), 1U);
  EXPECT_THAT(world.mechanism.released_behind, ElementsAre(world.mechanism.under_way[0].id));
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 host", "drop 1 host", "served 3"));
  world.end(3);
}

TEST(ReleaseEarly, OneThatFindsEverythingWaitsForNothing) {
  World world(early(4, 8));
  const auto [a] = world.written_blocks<1>();
  world.begin({world.read(a)}, 0);
  EXPECT_THAT(world.mechanism.released_behind, IsEmpty());
  world.end(2);
}

TEST(ReleaseEarly, NotBeforeAllOfItIsInTransfers) {
  EngineOptions options = early(4, 8);
  options.host_batch_bytes = 1;
  World world(options);
  const AllocationId a = all_below(world, 3, 4);
  world.begin({world.read(a)}, 0);  // one fault batch at a time
  EXPECT_THAT(world.calls(), ElementsAre("map 0", "fault host>device 0"));
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 host", "map 1", "fault host>device 1"));
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("drop 1 host", "map 2", "fault host>device 2", "ready 3"));
  EXPECT_THAT(world.mechanism.released_behind, testing::Contains(world.mechanism.under_way[0].id));
  world.finish();
  world.end(3);
}

TEST(ReleaseEarly, APrefetchUnderWayIsWaitedFor) {
  World world(early(4, 8));
  const AllocationId a = all_below(world, 2, 4);
  world.prefetch(a);
  const TransferId prefetch = world.mechanism.under_way.at(0).id;
  world.policy.at_launch = [](const Launch&, Control& control) {
    EXPECT_FALSE(control.usable(0));  // mapped, and not there yet
    EXPECT_TRUE(control.on_its_way(0));
  };
  world.forget();
  world.begin({world.read(a)}, 0);
  EXPECT_THAT(world.calls(), ElementsAre("ready 3"));
  EXPECT_THAT(world.mechanism.released_behind, ElementsAre(prefetch));  // once
  world.begin({world.read(a)}, 1);
  EXPECT_THAT(world.mechanism.released_behind, ElementsAre(prefetch));
  world.finish();
  world.end(4);
  world.end(3);
}

TEST(ReleaseEarly, AFailedTransferRecallsItAndItIsReleasedBehindTheNext) {
  World world(early(4, 8));
  const AllocationId a = all_below(world, 2, 4);
  world.begin({world.read(a)}, 0);
  world.begin({world.read(a)}, 0);
  const TransferId failed = world.mechanism.under_way.at(0).id;
  world.forget();
  world.fail();
  EXPECT_THAT(world.calls(),
              ElementsAre("unmap 0", "unmap 1", "drop 0 device", "drop 1 device", "map 0", "map 1",
                          "fault host>device 0 1", testing::_, testing::_));
  ASSERT_EQ(world.mechanism.under_way.size(), 1U);
  EXPECT_NE(world.mechanism.under_way[0].id, failed);
  EXPECT_THAT(world.mechanism.released_behind, ElementsAre(world.mechanism.under_way[0].id));
  world.fail();  // and again
  EXPECT_THAT(world.mechanism.released_behind, ElementsAre(world.mechanism.under_way[0].id));
  world.forget();
  world.finish();
  world.end(3);
  world.end(4);
  EXPECT_EQ(world.stats().failed_transfers, 2U);
}

// A block that is leaving when the launch wants it has no transfer to be waited for: it stays.
TEST(ReleaseEarly, WaitsForAnEvictionThatIsWantedBack) {
  for (const bool fails : {false, true}) {
    World world(early(2, 8));
    const auto [a, b] = world.written_blocks<2>();
    const AllocationId c = world.allocate(1);
    world.begin({world.write(c)}, 0);  // a is on its way down
    world.begin({world.read(a)}, 1);
    EXPECT_THAT(world.calls(), testing::Not(testing::Contains("ready 4")));
    fails ? world.fail(Cause::kEvict) : world.finish(Cause::kEvict);
    EXPECT_THAT(world.calls(), testing::Contains("ready 4"));
    world.finish_all();  // b goes instead
    world.end(4);
    world.end(3);
    EXPECT_EQ(world.block(b).copies.has(Tier::kDevice), false);
  }
}

// One launch waits for two transfers, of which one fails; another waits for the other only.
TEST(ReleaseEarly, OnlyThoseThatTheFailureConcernsAreRecalled) {
  EngineOptions options = early(4, 8);
  options.batches_in_flight = 2;
  World world(options);
  const AllocationId a = all_below(world, 2, 4);
  Access first = world.read(a);
  first.block_count = 1;
  Access second = first;
  ++second.first_block;
  world.engine.prefetch_blocks(0, 1);
  world.engine.prefetch_blocks(1, 1);
  ASSERT_EQ(world.mechanism.under_way.size(), 2U);
  const TransferId one = world.mechanism.under_way[0].id;
  const TransferId other = world.mechanism.under_way[1].id;
  world.begin({first, second, first}, 0);
  EXPECT_THAT(world.mechanism.released_behind, UnorderedElementsAre(one, other, one));
  world.begin({second}, 1);
  world.forget();
  world.fail();  // of the first block
  const std::vector<std::string> calls = world.calls();
  EXPECT_THAT(calls, testing::Contains("ready 3"));
  EXPECT_THAT(calls, testing::Not(testing::Contains("ready 4")));
  EXPECT_THAT(world.mechanism.released_behind, testing::Contains(other));
  EXPECT_THAT(world.mechanism.released_behind, testing::Not(testing::Contains(one)));
  world.finish_all();
  world.end(3);
  world.end(4);
}

// Freed or discarded while a transfer brings it that somebody had asked for: nothing stays mapped.
TEST(ReleaseEarly, WhatDiesOnItsWayIsUnmapped) {
  World world(early(4, 8));
  const AllocationId a = all_below(world, 2, 4);
  world.engine.prefetch_blocks(0, 2);
  world.discard(a);
  world.finish();
  EXPECT_FALSE(world.block(a).mapped);
  const AllocationId b = all_below(world, 1, 4);
  world.prefetch(b);
  const BlockId block = world.engine.space().allocation(b).first_block;
  world.free(b);
  world.forget();
  world.finish();
  EXPECT_EQ(world.calls().front(), fmt::format("unmap {}", block));
  EXPECT_TRUE(world.engine.space().block(block).frames.empty());
}

}  // namespace
}  // namespace spillway
