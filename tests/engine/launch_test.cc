// Launches: admission, faults, what is served first.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Launch, AFirstTouchGetsZerosAtOnce) {
  World world(one_at_a_time(4, 4, 4));
  const AllocationId a = world.allocate(2);
  const LaunchAdmission admission = world.begin({world.read(a)});
  EXPECT_EQ(admission.state, LaunchState::kReady);
  EXPECT_EQ(admission.faulted_blocks, 2U);
  EXPECT_THAT(world.calls(),
              ElementsAre("zero 0", "zero 1", "map 0", "map 1", "served 1", "ready 1"));
  world.end(1);
  EXPECT_EQ(world.begin({world.read(a)}).missing_blocks, 0U);
  EXPECT_THAT(world.calls(), ElementsAre("ready 2"));  // no fault, nothing to serve
  EXPECT_THAT(world.policy.faults, ElementsAre(0, 1));
  EXPECT_EQ(world.stats().faults, 2U);
  EXPECT_EQ(world.stats().launches, 2U);
}

TEST(Launch, WithoutOperandsIsReadyAtOnce) {
  World world(one_at_a_time(1, 0, 0));
  EXPECT_EQ(world.begin({}).state, LaunchState::kReady);
  EXPECT_THAT(world.calls(), ElementsAre("ready 1"));
}

TEST(Launch, TooLargeForTheDeviceChangesNothing) {
  World world(one_at_a_time(2, 4, 4));
  const AllocationId a = world.allocate(3);
  EXPECT_EQ(world.begin({world.read(a)}).state, LaunchState::kTooLarge);
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.stats().launches, 0U);
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 0U);
  EXPECT_FALSE(world.engine.stuck().has_value());
  EXPECT_TRUE(world.engine.set_device_capacity(kBlockBytes).has_value());  // nothing runs
}

TEST(Launch, WaitsForThoseItDoesNotFitBesideAndHoldsBackLaterOnes) {
  World world(one_at_a_time(3, 8, 0));
  const AllocationId a = world.allocate(2);
  const AllocationId b = world.allocate(2);
  const AllocationId c = world.allocate(1);
  EXPECT_EQ(world.begin({world.write(a)}).state, LaunchState::kReady);
  EXPECT_EQ(world.begin({world.write(b)}).state, LaunchState::kWaiting);  // 2 + 2 > 3
  EXPECT_EQ(world.begin({world.write(c)}).state, LaunchState::kWaiting);  // fits, but is behind
  EXPECT_FALSE(world.engine.stuck().has_value());  // the first one runs and will end
  world.forget();
  world.end(1);
  // b's first block finds room; for its second, a's oldest must go down.
  EXPECT_THAT(world.calls(), ElementsAre("unmap 0", "zero 2", "map 2", "evict device>host 0"));
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("unmap 1", "drop 0 device", "zero 3", "map 3",
                                         "evict device>host 1", "served 2", "ready 2"));
  world.finish();
  EXPECT_THAT(world.calls(),
              ElementsAre("drop 1 device", "zero 4", "map 4", "served 3", "ready 3"));
  world.end(2);
  world.end(3);
}

TEST(Launch, TwoThatShareBlocksFitTogether) {
  World world(one_at_a_time(3, 8, 0));
  const AllocationId a = world.allocate(2);
  const AllocationId b = world.allocate(1);
  EXPECT_EQ(world.begin({world.read(a)}).state, LaunchState::kReady);
  EXPECT_EQ(world.begin({world.read(a), world.read(b)}).state, LaunchState::kReady);
  world.end(1);
  EXPECT_EQ(world.block(a).pins, 1U);  // still used by the second
  world.end(2);
}

// One fault batch at a time, as the driver's fault loop has it (DeepUM figure 3); the launch hears
// that its faults are served before it hears that it may go.
TEST(Launch, FaultsComeOneBatchAtATime) {
  World world(one_at_a_time(2, 8, 0));
  const AllocationId a = world.allocate(2);
  const AllocationId b = world.allocate(2);
  world.write_all({a, b});  // a has gone to host memory
  world.free(b);
  world.forget();
  EXPECT_EQ(world.begin({world.read(a)}).state, LaunchState::kWaiting);
  EXPECT_THAT(world.calls(), ElementsAre("fault host>device 0"));
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 host", "map 0", "fault host>device 1"));
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("drop 1 host", "map 1", "served 3", "ready 3"));
  EXPECT_EQ(world.stats().moved(Tier::kHost, Tier::kDevice), 2 * kBlockBytes);
}

TEST(Launch, FaultsFormBatchesUpToTheirSize) {
  EngineOptions options = one_at_a_time(4, 8, 0);
  options.host_batch_bytes = 2 * kBlockBytes;
  World world(options);
  const AllocationId a = world.allocate(3);
  const AllocationId b = world.allocate(4);
  world.write_all({a, b});
  world.free(b);
  world.forget();
  world.begin({world.read(a), world.read(a)});  // named twice, fetched once
  EXPECT_THAT(world.calls(), ElementsAre("fault host>device 0 1"));
  EXPECT_EQ(world.mechanism.under_way.front().bytes, 2 * kBlockBytes);
  world.finish();
  world.finish();
  EXPECT_TRUE(world.mechanism.under_way.empty());
  EXPECT_EQ(world.stats().moved(Tier::kHost, Tier::kDevice), 3 * kBlockBytes);
}

TEST(Launch, FaultsFromHostAndStorageGoSideBySide) {
  World world(one_at_a_time(2, 1, 2));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  const AllocationId c = world.allocate(2);
  world.write_all({a, b, c});  // a in host memory, b in storage
  world.free(c);
  world.forget();
  world.begin({world.read(a), world.read(b)});
  EXPECT_THAT(world.calls(), ElementsAre("fault host>device 0", "fault storage>device 1"));
  world.finish_all();
}

TEST(Launch, AFaultPromotesAQueuedPrefetchAndComesFirst) {
  EngineOptions options = one_at_a_time(4, 8, 0);
  World world(options);
  const AllocationId a = world.allocate(4);
  const AllocationId b = world.allocate(4);
  world.write_all({a, b});
  world.free(b);
  world.forget();
  world.prefetch(a);  // one prefetch at a time: 0 goes, 1 2 3 wait
  EXPECT_THAT(world.calls(), ElementsAre("prefetch host>device 0"));
  Access last = world.read(a);
  last.first_block = 3;
  last.block_count = 1;
  const LaunchAdmission admission = world.begin({last});
  EXPECT_EQ(admission.missing_blocks, 1U);
  EXPECT_EQ(admission.faulted_blocks, 0U);  // somebody had asked for it
  EXPECT_EQ(world.stats().late_prefetches, 1U);
  EXPECT_THAT(world.calls(), ElementsAre("fault host>device 3"));
  world.finish(Cause::kFault);
  EXPECT_THAT(world.calls(), ElementsAre("drop 3 host", "map 3", "ready 3"));  // no "served"
  world.finish_all();
  EXPECT_EQ(world.stats().moved(Tier::kHost, Tier::kDevice), 4 * kBlockBytes);
}

// A launch that faulted on one block and waits for a prefetch of another hears of the two apart.
TEST(Launch, FaultsAreServedBeforeLatePrefetchesArrive) {
  World world(one_at_a_time(2, 8, 0));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  const AllocationId c = world.allocate(2);
  world.write_all({a, b, c});
  world.free(c);
  world.prefetch(a);
  world.begin({world.read(a), world.read(b)});
  world.forget();
  world.finish(Cause::kFault);
  EXPECT_THAT(world.calls(), ElementsAre("drop 1 host", "map 1", "served 4"));
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 host", "map 0", "ready 4"));
}

TEST(Launch, APrefetchLeavesTheRoomThatAFaultWaitsFor) {
  World world(one_at_a_time(3, 8, 0));
  const AllocationId big = world.allocate(1);
  const AllocationId small = world.allocate_bytes(kBlockBytes / 2);
  const AllocationId filler = world.allocate(3);
  world.write_all({big, small, filler});
  // Half a block is free: enough for `small`, not for `big`.
  const AllocationId half = world.allocate_bytes(kBlockBytes / 2);
  world.run({world.write(half)});
  const AllocationId pinned = world.allocate(1);
  world.run({world.write(pinned)});
  world.forget();
  ASSERT_EQ(world.engine.free_bytes(Tier::kDevice), kBlockBytes / 2);
  world.begin({world.read(big)});
  world.prefetch(small);
  for (const std::string& call : world.calls()) {
    EXPECT_THAT(call, testing::Not(testing::StartsWith("prefetch")));
  }
  world.finish_all();
  EXPECT_TRUE(world.block(big).mapped);
  EXPECT_TRUE(world.block(small).mapped);
}

TEST(Launch, APolicysPrefetchIsCountedAsUsedOrWasted) {
  World world(one_at_a_time(2, 8, 0));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  const AllocationId c = world.allocate(2);
  world.write_all({a, b, c});
  world.prefetch(a);
  world.prefetch(b);
  world.finish_all();
  world.run({world.read(a)});
  world.run({world.read(c)});  // a and b leave again
  EXPECT_EQ(world.stats().prefetches_used, 1U);
  EXPECT_EQ(world.stats().prefetches_wasted, 1U);
}

// A wrong wish costs time, never data.
TEST(Launch, WishesThatMakeNoSenseAreRefused) {
  World world(one_at_a_time(1, 4, 4));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  const AllocationId gone = world.allocate(1);
  world.free(gone);
  world.write_all({a});
  world.policy.victim = [](Cause) { return std::optional<BlockId>(99); };
  world.policy.tier = Tier::kDevice;
  world.policy.at_launch = [](const Launch&, Control& control) {
    for (const BlockId id : {BlockId{0}, BlockId{1}, BlockId{2}, BlockId{99}, kNoBlock}) {
      control.prefetch(id);
      control.pre_evict(id, Tier::kDevice);
      control.pre_evict(id, Tier::kStorage);
      EXPECT_FALSE(control.evictable(id) && id > 1);
      EXPECT_FALSE(control.usable(id) && id > 1);
    }
  };
  world.run({world.write(b)});
  EXPECT_TRUE(world.block(b).mapped);
  EXPECT_FALSE(world.block(a).copies.has(Tier::kDevice));
  EXPECT_FALSE(world.block(a).copies.empty());
  EXPECT_EQ(world.engine.space().block(2).bytes, 0U);  // the freed number is still free
  EXPECT_TRUE(world.engine.space().block(2).frames.empty());
}

}  // namespace
}  // namespace spillway
