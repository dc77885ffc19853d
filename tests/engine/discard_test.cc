// Dead contents: discarded and freed blocks, what is reclaimed first, what is recovered. Section
// numbers are those of UVM Discard.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

// Section 5.5: free frames, then unused ones, then discarded ones, oldest first, then used ones,
// least recently migrated first.
TEST(Discard, FramesAreReclaimedInTheDriversOrder) {
  World world(one_at_a_time(7, 8, 0));
  // Block numbers are 0 to 5; a seventh frame stays free.
  const std::vector<AllocationId> ids = world.allocate_single_blocks(6);
  world.write_all(ids);
  world.pre_evict(ids[5]);
  world.pre_evict(ids[1]);
  world.finish_all();
  world.discard(ids[4]);
  world.discard(ids[2]);
  world.prefetch(ids[0]);  // most recently used now: 3 is the oldest used one
  world.forget();

  std::vector<std::string> lost;
  for (int i = 0; i < 7; ++i) {
    world.begin({world.write(world.allocate(1))});
    for (const std::string& call : world.calls()) {
      if (call.starts_with("drop") || call.find('>') != std::string::npos) {
        lost.push_back(call);
      }
    }
    world.finish_all();
  }
  EXPECT_THAT(lost, ElementsAre("drop 5 device", "drop 1 device", "drop 4 device", "drop 2 device",
                                "evict device>host 3", "drop 3 device", "evict device>host 0"));
  EXPECT_EQ(world.stats().reclaimed_unused, 2U);
  EXPECT_EQ(world.stats().reclaimed_discarded, 2U);
  EXPECT_EQ(world.stats().evictions, 2U);
}

TEST(Discard, LeastRecentlyMigratedNotLeastRecentlyUsed) {
  World world(one_at_a_time(2, 8, 0));
  const auto [a, b] = world.written_blocks<2>();
  world.run({world.read(a)});  // a hit moves nothing: the driver does not see it
  world.run({world.write(world.allocate(1))});
  EXPECT_FALSE(world.block(a).copies.has(Tier::kDevice));
  EXPECT_TRUE(world.block(b).copies.has(Tier::kDevice));
}

// Sections 5.1 and 5.2.
TEST(Discard, EagerUnmapsAtOnceLazyDoesNot) {
  World world(one_at_a_time(2, 8, 0));
  const auto [a, b] = world.written_blocks<2>();
  world.discard(a, DiscardMode::kEager);
  EXPECT_THAT(world.calls(), ElementsAre("unmap 0"));
  world.discard(b, DiscardMode::kLazy);
  EXPECT_THAT(world.calls(), IsEmpty());
  world.prefetch(a);
  world.prefetch(b);  // mandatory before use
  EXPECT_THAT(world.calls(), ElementsAre("map 0"));
  EXPECT_EQ(world.stats().recovered, 2U);
  EXPECT_EQ(world.block(b).queue, PageQueue::kUsed);
  // Section 5.6: reclaiming a lazily discarded frame unmaps it then.
  world.discard(b, DiscardMode::kLazy);
  world.run({world.write(world.allocate(1))});
  EXPECT_THAT(world.calls(), Contains("unmap 1"));
}

// Section 5.7: recovered before it was reclaimed, most recently used again, and not zeroed, for it
// was prepared when it came.
TEST(Discard, ARecoveredBlockIsNotZeroedTwice) {
  World world(one_at_a_time(2, 8, 0));
  const auto [a, b] = world.written_blocks<2>();
  world.discard(a);
  world.forget();
  const LaunchAdmission admission = world.begin({world.read(a)});
  EXPECT_EQ(admission.missing_blocks, 0U);
  EXPECT_THAT(world.calls(), ElementsAre("map 0", "ready 3"));
  EXPECT_EQ(world.engine.queues().oldest(PageQueue::kUsed), 1U);
  EXPECT_EQ(world.stats().recovered, 1U);
  EXPECT_EQ(world.stats().saved_by_discard_bytes, 0U);
}

// A launch that overwrites all of a block gets its frame as it is. Such a frame was never zeroed
// nor migrated over: whoever reads it after a discard gets zeros first (section 5.7).
TEST(Discard, ABlockThatWasNotPreparedIsZeroedWhenItIsRecovered) {
  World world(one_at_a_time(2, 8, 0));
  const AllocationId a = world.allocate(1);
  world.begin({world.overwrite(a)});
  EXPECT_THAT(world.calls(), ElementsAre("map 0", "served 1", "ready 1"));
  EXPECT_FALSE(world.block(a).prepared);
  world.end(1);
  world.discard(a);
  world.forget();
  world.run({world.overwrite(a)});  // whoever overwrites it again needs no zeros either
  EXPECT_THAT(world.calls(), ElementsAre("map 0", "ready 2"));
  world.discard(a);
  world.forget();
  world.run({world.read(a)});
  EXPECT_THAT(world.calls(), ElementsAre("zero 0", "map 0", "ready 3"));
  EXPECT_TRUE(world.block(a).prepared);
  world.discard(a);
  world.forget();
  world.prefetch(a);
  EXPECT_THAT(world.calls(), ElementsAre("map 0"));
}

TEST(Discard, AFrameThatWasMigratedOverIsPrepared) {
  World world(one_at_a_time(1, 8, 0));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  world.run({world.overwrite(a)});
  world.run({world.overwrite(b)});  // a goes down
  world.run({world.read(a)});       // and comes back, over the whole frame
  EXPECT_TRUE(world.block(a).prepared);
  world.discard(a);
  world.forget();
  world.run({world.read(a)});
  EXPECT_THAT(world.calls(), ElementsAre("map 0", "ready 4"));
}

TEST(Discard, ZeroingIsSparedOnlyIfNobodyElseLooks) {
  World world(one_at_a_time(2, 8, 0));
  const AllocationId a = world.allocate(1);
  const AllocationId both = world.allocate(1);
  // Two launches wait for the same block, and only the first overwrites it.
  world.begin({world.write(a)});
  ASSERT_EQ(world.begin({world.overwrite(both), world.read(both)}).state, LaunchState::kReady);
  EXPECT_THAT(world.calls(), Contains("zero 1"));
  // A page that small allocations share is overwritten in part.
  const AllocationId small = world.allocate_bytes(100);
  world.end(1);
  world.end(2);
  world.free(a);
  world.forget();
  world.begin({world.overwrite(small)});
  EXPECT_THAT(world.calls(), Contains("zero 2"));
}

// The second launch reads what the first is about to overwrite, and both wait for its frame.
TEST(Discard, AReaderThatJoinsTheWaitGetsZeros) {
  World world(one_at_a_time(2, 8, 0));
  const AllocationId a = world.allocate(2);
  const AllocationId b = world.allocate(1);
  world.write_all({a});
  world.begin({world.overwrite(b)});  // waits until one block of a has gone down
  world.begin({world.read(b)});
  world.forget();
  world.finish();
  EXPECT_THAT(world.calls(), Contains("zero 2"));
}

// Overwriting one of the small allocations in a page must not lose the others.
TEST(Discard, OverwritingASmallAllocationKeepsItsNeighbours) {
  World world(one_at_a_time(1, 8, 0));
  const AllocationId a = world.allocate_bytes(100);
  const AllocationId b = world.allocate_bytes(100);
  const AllocationId filler = world.allocate(1);
  world.write_all({a, filler});  // the page is in host memory
  world.begin({world.overwrite(b)});
  world.finish(Cause::kEvict);
  EXPECT_EQ(world.mechanism.under_way.size(), 1U);
  world.finish(Cause::kFault);
  EXPECT_EQ(world.stats().moved(Tier::kHost, Tier::kDevice), kPageBytes);
}

TEST(Discard, ASharedPageIsLeftAlone) {
  World world(one_at_a_time(1, 8, 0));
  const AllocationId a = world.allocate_bytes(100);
  world.allocate_bytes(100);
  world.write_all({a});
  world.discard(a);
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
  world.free(a);  // the page stays for the other tenant
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), kPageBytes);
}

// Section 5.3: both directions are saved, and both are counted.
TEST(Discard, CountsTheTransfersThatItSaved) {
  World world(one_at_a_time(1, 8, 0));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  world.write_all({a});
  world.discard(a);
  world.run({world.write(b)});  // a's frame is taken: its way down is spared
  EXPECT_EQ(world.stats().saved_by_discard_bytes, kBlockBytes);
  world.discard(b);
  world.run({world.read(a)});  // zeros instead of its way back, and b's way down
  EXPECT_EQ(world.stats().saved_by_discard_bytes, 3 * kBlockBytes);
  EXPECT_THAT(world.calls(), no_transfer);
}

TEST(Discard, WhatLiesBelowIsDropped) {
  World world(one_at_a_time(1, 1, 1));
  const auto [a, b, c] = world.written_blocks<3>();  // a in host memory, b in storage
  world.discard(a);
  world.discard(b);
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 host", "drop 1 storage"));
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
  world.discard(c);
  world.run({world.read(a)});
  EXPECT_THAT(world.calls(), no_transfer);
}

TEST(Discard, WhatWasNeverTouchedStaysAsItIs) {
  World world(one_at_a_time(1, 1, 1));
  const AllocationId a = world.allocate(1);
  world.discard(a);
  world.free(a);
  EXPECT_THAT(world.calls(), IsEmpty());
}

// Without a queue of its own, a dead block waits for its turn and is dropped then
// (DeepUM section 5.2).
TEST(Discard, DeadBlocksKeepTheirPlaceWhereTheDriverHasNoQueueForThem) {
  EngineOptions options = one_at_a_time(2, 8, 0);
  options.reclaim_discarded_first = false;
  World world(options);
  const auto [a, b] = world.written_blocks<2>();
  world.discard(b);
  EXPECT_EQ(world.block(b).queue, PageQueue::kUsed);
  world.run({world.write(world.allocate(1))});
  EXPECT_THAT(world.calls(), Contains("evict device>host 0"));
  world.run({world.write(world.allocate(1))});
  EXPECT_THAT(world.calls(), AllOf(Contains("drop 1 device"), no_transfer));
}

}  // namespace
}  // namespace spillway
