// Memory that is discarded lazily, by a program that promises not to touch it before it is reused.
#include "engine/thread_faults.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// One that has been written, and is there.
AllocationId retired_block(World& world) {
  const AllocationId id = world.allocate(1);
  touch(world, id, true);
  world.discard(id, DiscardMode::kLazy);
  return id;
}

TEST(Retired, IsRevivedWhereItIsWithoutACall) {
  World world(tracking(2, 2));
  const AllocationId a = retired_block(world);
  world.forget();
  world.engine.reuse(a);
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
  EXPECT_TRUE(world.block(a).writable);
}

// A policy may fetch a frame for it ahead of its reuse; it stays dead until then.
TEST(Retired, PrefetchingItSetsAFrameAside) {
  World world(tracking(1, 2));
  const AllocationId a = retired_block(world);
  const AllocationId b = world.allocate(1);
  touch(world, b, true);  // takes its frame
  EXPECT_FALSE(world.block(a).frames.has(Tier::kDevice));
  world.free(b);
  world.policy.at_launch = [&](const Launch&, Control& control) { control.prefetch(0); };
  world.forget();
  world.begin({});
  EXPECT_TRUE(world.block(a).frames.has(Tier::kDevice));
  EXPECT_THAT(world.calls(), ElementsAre("ready 1"));  // nobody will look before it is used again
  EXPECT_EQ(world.block(a).contents, Contents::kDiscarded);
  world.policy.at_launch = nullptr;
  world.end(1);
  touch(world, world.allocate(1), true);  // and it goes without a transfer
  EXPECT_FALSE(world.block(a).frames.has(Tier::kDevice));
  EXPECT_EQ(world.stats().moved(Tier::kDevice, Tier::kHost), 0U);
}

// Who names it in a launch uses it: it is like any other memory then, and its writes are seen.
TEST(Retired, ALaunchEndsIt) {
  World world(tracking(1, 3));
  const AllocationId a = retired_block(world);
  const AllocationId b = world.allocate(1);
  world.run({world.write(a)});
  touch_through(world, b, true);  // a goes to host memory
  world.run({world.read(a)});     // and comes back, its copy there being spare
  EXPECT_FALSE(world.block(a).writable);
}

// What is set aside for memory whose next use overwrites it needs no zeros.
TEST(Retired, AFrameSetAsideIsZeroedOnlyForThoseWhoMayRead) {
  const auto used_by = [](const auto& use) {
    World world(tracking(2, 2));
    const AllocationId a = retired_block(world);
    const AllocationId b = world.allocate(2);
    touch(world, b, true);
    world.run({world.write(b)});  // takes its frame
    world.free(b);
    world.policy.at_launch = [&](const Launch&, Control& control) { control.prefetch(0); };
    world.run({});
    world.run({});  // and again: nothing is left to be done
    world.policy.at_launch = nullptr;
    EXPECT_TRUE(world.block(a).frames.has(Tier::kDevice));
    EXPECT_FALSE(world.block(a).mapped);
    world.forget();
    use(world, a);
    world.check();
    EXPECT_TRUE(world.block(a).mapped);
    return world.calls();
  };
  EXPECT_THAT(used_by([](World& world, AllocationId a) { world.begin({world.overwrite(a)}); }),
              ElementsAre("map 0", "ready 4"));
  EXPECT_THAT(used_by([](World& world, AllocationId a) { world.begin({world.write(a)}); }),
              ElementsAre("zero 0", "map 0", "ready 4"));
  EXPECT_THAT(used_by([](World& world, AllocationId a) { touch(world, a, false); }),
              ElementsAre("zero 0", "map 0 read-only"));
  EXPECT_THAT(used_by([](World& world, AllocationId a) { world.prefetch(a); }),
              ElementsAre("zero 0", "map 0 read-only"));
  EXPECT_THAT(used_by([](World& world, AllocationId a) { world.engine.reuse(a); }),
              ElementsAre("map 0"));
}

// Whatever the order of reclaiming, a frame that was set aside goes like any other dead one.
TEST(Retired, AFrameSetAsideMayBeDiscardedOrFreed) {
  for (const bool first : {true, false}) {
    EngineOptions options = tracking(1, 2);
    options.reclaim_discarded_first = first;
    World world(options);
    const AllocationId a = retired_block(world);
    const AllocationId b = world.allocate(1);
    touch(world, b, true);
    world.free(b);
    world.policy.at_launch = [&](const Launch&, Control& control) { control.prefetch(0); };
    world.run({});
    world.policy.at_launch = nullptr;
    world.discard(a, DiscardMode::kEager);
    touch(world, a, true);
    EXPECT_EQ(world.block(a).contents, Contents::kLive);
    world.free(a);
    EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 0U);
  }
}

}  // namespace
}  // namespace spillway
