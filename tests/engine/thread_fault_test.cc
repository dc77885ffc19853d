// Threads that stop at blocks outside any launch, and first writes that the platform reports: what
// the engine does on machines with page faults.
#include "engine/thread_faults.h"

namespace spillway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ThreadFault, ReadMapsZerosReadOnlyAndTheFirstWriteMakesThemLive) {
  World world(tracking(2, 2));
  const AllocationId a = world.allocate(1);
  touch(world, a, false);
  EXPECT_THAT(world.calls(), ElementsAre("zero 0", "map 0 read-only"));
  EXPECT_EQ(world.block(a).contents, Contents::kUndefined);
  touch(world, a, true);
  EXPECT_THAT(world.calls(), ElementsAre("map 0"));
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
  EXPECT_EQ(world.stats().faults, 1U);
}

TEST(ThreadFault, AFaultThatCrossedItsAnswerIsAnsweredAgain) {
  World world(tracking(2, 2));
  const AllocationId a = world.allocate(1);
  touch(world, a, true);
  world.forget();
  touch(world, a, true);
  touch(world, a, false);
  EXPECT_THAT(world.calls(), ElementsAre("map 0", "map 0"));
  EXPECT_EQ(world.stats().faults, 1U);
}

TEST(ThreadFault, ABlockNamedTwiceIsOneFault) {
  World world(tracking(1, 2));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  touch_through(world, a, true);
  touch_through(world, b, true);  // a is in host memory now
  const std::array faults{ThreadFault{.block = 0, .write = false},
                          ThreadFault{.block = 0, .write = true}};
  world.forget();
  world.engine.thread_faults({}, faults);
  world.finish_all();
  EXPECT_EQ(world.stats().faults, 3U);
  EXPECT_THAT(world.calls(), Contains("map 0"));  // writable at once, for the second thread
}

// The way of a block that is only read: its copy stays below, and it leaves without being written.
TEST(ThreadFault, CleanBlocksLeaveWithoutATransfer) {
  World world(tracking(1, 3));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  touch_through(world, a, true);
  touch_through(world, b, true);
  touch_through(world, a, false);  // back, with its copy in host memory
  EXPECT_TRUE(world.block(a).spare.has(Tier::kHost));
  world.forget();
  touch(world, b, false);
  EXPECT_THAT(world.calls(), Not(Contains("evict device>host 0")));
  world.finish_all();
  EXPECT_FALSE(world.block(a).copies.has(Tier::kDevice));
  EXPECT_TRUE(world.block(a).copies.has(Tier::kHost));
  EXPECT_FALSE(world.block(a).spare.has(Tier::kHost));  // the only copy now
}

TEST(ThreadFault, TheFirstWriteDropsTheCopyBelow) {
  World world(tracking(1, 3));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  touch_through(world, a, true);
  touch_through(world, b, true);
  touch_through(world, a, false);
  world.forget();
  touch(world, a, true);
  EXPECT_THAT(world.calls(), ElementsAre("map 0", "drop 0 host"));
  touch(world, b, false);
  EXPECT_THAT(world.calls(), Contains("evict device>host 0"));
  world.finish_all();
}

TEST(ThreadFault, ASpareCopyGoesWhenItsPlaceIsNeeded) {
  World world(tracking(2, 2));
  const auto ids = world.allocate_single_blocks(3);
  touch_through(world, ids[0], true);
  touch_through(world, ids[1], true);
  touch_through(world, ids[2], true);   // 0 goes to host memory
  touch_through(world, ids[0], false);  // 1 goes there; 0 comes back and leaves a spare
  EXPECT_EQ(world.engine.free_bytes(Tier::kHost), kBlockBytes);
  world.forget();
  touch(world, ids[1], false);  // 2 must go, into the place of the spare
  EXPECT_THAT(world.calls(), Contains("drop 0 host"));
  world.finish_all();
}

// A thread that waits is not forgotten when the transfer fails.
TEST(ThreadFault, AFailedFetchIsTriedAgain) {
  World world(tracking(1, 2));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  touch_through(world, a, true);
  touch_through(world, b, true);
  touch(world, a, false);
  world.finish(Cause::kEvict);
  world.fail(Cause::kFault);
  world.forget();
  world.finish(Cause::kFault);
  EXPECT_THAT(world.calls(), Contains("map 0 read-only"));
}

TEST(ThreadFault, AWriteToABlockThatIsLeavingKeepsIt) {
  World world(tracking(1, 2));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  touch_through(world, a, true);
  touch(world, b, true);  // a is being copied down
  touch(world, a, true);
  world.forget();
  world.finish(Cause::kEvict);
  EXPECT_THAT(world.calls(), Contains("map 0"));
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
  world.finish_all();
}

// It would wait for ever: that is said at once, also while a launch runs whose end would give room.
TEST(ThreadFault, ABlockLargerThanTheDeviceIsSaid) {
  World world(tracking(2, 8));
  const AllocationId used = world.allocate(1);
  const AllocationId large = world.engine.allocate(4 * kBlockBytes, 0, 4 * kBlockBytes).value();
  world.begin({world.write(used)});
  touch(world, large, true);
  world.finish_all();
  ASSERT_TRUE(world.engine.stuck());
  EXPECT_THAT(
      world.engine.stuck()->message,
      HasSubstr("waits for a block of 8 MiB, and 4 MiB of device memory can never hold it"));
  ASSERT_TRUE(world.engine.set_device_capacity(5 * kBlockBytes));
  EXPECT_FALSE(world.engine.stuck());
  EXPECT_TRUE(world.block(large).mapped);
  world.end(1);
}

// Whatever the order of reclaiming, memory that was discarded eagerly is live after its next write.
TEST(ThreadFault, AWriteAfterAnEagerDiscardIsSeen) {
  for (const bool first : {true, false}) {
    EngineOptions options = tracking(2, 2);
    options.reclaim_discarded_first = first;
    World world(options);
    const AllocationId a = world.allocate(1);
    touch(world, a, true);
    world.discard(a, DiscardMode::kEager);
    EXPECT_FALSE(world.block(a).writable);
    touch(world, a, true);
    EXPECT_EQ(world.block(a).contents, Contents::kLive);
  }
}

// Reads of memory that is there stop nowhere: the platform says so, where it knows.
TEST(Accesses, ShowThatAPrefetchWasUsed) {
  World world(tracking(1, 2));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  touch_through(world, a, true);
  touch_through(world, b, true);  // a goes to host memory
  world.free(b);
  world.prefetch(a);
  world.finish_all();
  EXPECT_EQ(world.stats().prefetches_used, 0U);
  world.engine.note_accesses({}, 0, 1);
  world.engine.note_accesses({}, 0, 1);
  EXPECT_EQ(world.stats().prefetched, 1U);
  EXPECT_EQ(world.stats().prefetches_used, 1U);
}

TEST(Accesses, ReachThePolicyForBlocksThatAreAlive) {
  World world(tracking(2, 2));
  const AllocationId a = world.allocate(2);
  world.begin({});
  world.engine.note_accesses({}, 0, 7);
  EXPECT_THAT(world.policy.accesses, ElementsAre(0, 1));
  world.end(1);
  world.free(a);
}

}  // namespace
}  // namespace spillway
