// What a launch may write that does not name it, because another has stored its address: where
// copies below are kept, they are stale as soon as such a launch is admitted.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::Contains;
using testing::Not;

constexpr auto kLeavesByACopy = "evict device>host 0";

class EscapedAddressesTest : public testing::Test {
 protected:
  static EngineOptions options(std::uint64_t device) {
    EngineOptions made = one_at_a_time(device, 8, 0);
    made.clean_copies = CleanCopies::kAll;
    return made;
  }
  // Whoever has an address from device memory.
  static LaunchAdmission reach(World& world, StreamId stream = kNoStream) {
    return world.issue({.stream = stream, .reaches = true, .accesses = {}});
  }
  static void run_reaching(World& world) {
    (void)reach(world);
    world.end(world.launches);
  }
  static BlockId block_of(const World& world, AllocationId id) {
    return world.engine.space().allocation(id).first_block;
  }
  // As policies do, when a launch ends.
  static void copy_down(World& world, AllocationId id) {
    world.policy.at_launch_end = [&](const Launch& /*launch*/, Control& control) {
      control.copy_down(block_of(world, id), Tier::kHost);
    };
    world.begin({});
    world.end(world.launches);
    world.policy.at_launch_end = nullptr;
  }
  // Whether what `by` names pushes block 0 out with a copy.
  static bool leaves_by_a_copy(World& world, const Access& by) {
    world.forget();
    world.run({by});
    return std::ranges::count(world.calls(), kLeavesByACopy) > 0;
  }
};

TEST_F(EscapedAddressesTest, WhatALaunchHasStoredTheAddressOfLeavesByACopyWhereAnotherReachesIt) {
  World world(options(1));
  const AllocationId a = world.allocate(1);
  world.run({world.use(a, AccessMode::kExpose)});
  const AllocationId b = world.allocate(1);
  world.run({world.write(b)});  // a leaves
  world.run({world.read(a)});
  EXPECT_TRUE(world.block(a).spare.has(Tier::kHost));
  run_reaching(world);
  EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
  world.run({world.read(a)});
  EXPECT_TRUE(leaves_by_a_copy(world, world.read(b)));
}

TEST_F(EscapedAddressesTest, WithoutSuchALaunchItLeavesWithoutACopy) {
  World world(options(1));
  const AllocationId a = world.allocate(1);
  world.run({world.use(a, AccessMode::kExpose)});
  const AllocationId b = world.allocate(1);
  world.run({world.write(b)});
  run_reaching(world);  // a is not there
  world.run({world.read(a)});
  EXPECT_FALSE(leaves_by_a_copy(world, world.read(b)));
}

TEST_F(EscapedAddressesTest, WhatIsNotExposedLeavesWithoutACopy) {
  World world(options(1));
  const auto [a, b] = world.written_blocks<2>();
  world.run({world.read(a)});
  run_reaching(world);
  EXPECT_FALSE(leaves_by_a_copy(world, world.read(b)));
}

TEST_F(EscapedAddressesTest, WhatComesWhileSuchALaunchRunsKeepsNoCopies) {
  World world(options(1));
  const auto [a, b] = world.written_blocks<2>();
  world.engine.expose(a);
  (void)reach(world, 0);
  const std::uint64_t reaching = world.launches;
  world.begin({world.read(a)}, 1);
  world.finish_all();
  EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
  world.end(world.launches);
  world.end(reaching);
  EXPECT_TRUE(leaves_by_a_copy(world, world.read(b)));
}

// A platform maps what comes before it is there.
TEST_F(EscapedAddressesTest, NorWhatWasOnItsWayWhenOneRan) {
  World world(options(1));
  const auto [a, b] = world.written_blocks<2>();
  world.engine.expose(a);
  world.begin({world.read(a)}, 0);
  world.finish();  // b has left; a is under way
  (void)reach(world, 1);
  world.end(world.launches);
  world.finish_all();
  EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
  world.end(world.launches - 1);
  EXPECT_TRUE(leaves_by_a_copy(world, world.read(b)));
}

// It was written while it was copied: the copy may have old bytes and new ones.
TEST_F(EscapedAddressesTest, NorWhatWasCopiedDownWhenOneRan) {
  World world(options(2));
  const auto [a, b] = world.written_blocks<2>();
  world.engine.expose(a);
  copy_down(world, a);
  ASSERT_EQ(world.mechanism.under_way.size(), 1U);
  run_reaching(world);
  world.finish_all();
  EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
  EXPECT_TRUE(world.block(a).mapped);
  EXPECT_TRUE(leaves_by_a_copy(world, world.write(world.allocate(1))));
}

// The platform leaves it where it is until its frame is wanted.
TEST_F(EscapedAddressesTest, NorWhatWasEvictedAheadWhenOneRan) {
  for (const bool ends_before : {true, false}) {
    World world(options(2));
    const auto [a, b] = world.written_blocks<2>();
    world.engine.expose(a);
    world.pre_evict(a);
    if (ends_before) {
      world.finish_all();
      ASSERT_EQ(world.block(a).queue, PageQueue::kUnused);
    }
    run_reaching(world);
    world.finish_all();
    EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
    EXPECT_TRUE(world.block(a).mapped);
    EXPECT_TRUE(leaves_by_a_copy(world, world.write(world.allocate(2))));
  }
}

TEST_F(EscapedAddressesTest, NorWhatWasEvictedAheadBeforeItWasExposed) {
  for (const bool runs : {true, false}) {
    World world(options(2));
    const auto [a, b] = world.written_blocks<2>();
    world.pre_evict(a);
    world.finish_all();
    if (runs) {
      (void)reach(world);
    }
    world.engine.expose(a);
    world.check();
    if (!runs) {
      (void)reach(world);
    }
    EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
    world.end(world.launches);
  }
}

TEST_F(EscapedAddressesTest, NorWhatWasWantedAgainWhileItLeft) {
  World world(options(2));
  const auto [a, b] = world.written_blocks<2>();
  world.engine.expose(a);
  const AllocationId c = world.allocate(1);
  world.begin({world.write(c)}, 0);
  ASSERT_EQ(world.mechanism.under_way[0].blocks[0], block_of(world, a));
  const std::uint64_t writes_c = world.launches;
  world.begin({world.read(a)}, 1);
  const std::uint64_t reads_a = world.launches;
  (void)reach(world, 2);
  world.end(world.launches);
  world.finish_all();
  EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
  world.end(reads_a);
  world.end(writes_c);
  EXPECT_TRUE(leaves_by_a_copy(world, world.write(world.allocate(1))));
}

TEST_F(EscapedAddressesTest, NothingIsCopiedAheadInVain) {
  World world(options(2));
  const auto [a, b] = world.written_blocks<2>();
  world.engine.expose(a);
  (void)reach(world);
  const std::uint64_t reaching = world.launches;
  copy_down(world, a);
  world.pre_evict(b);
  ASSERT_EQ(world.mechanism.under_way.size(), 1U);
  EXPECT_NE(world.mechanism.under_way[0].blocks[0], block_of(world, a));
  world.finish_all();
  world.end(reaching);
}

TEST_F(EscapedAddressesTest, WhatIsThereWhenItsAddressIsStoredLosesItsCopiesOnlyThen) {
  World world(options(1));
  const auto [a, b] = world.written_blocks<2>();
  world.run({world.read(a)});
  world.engine.expose(a);
  world.check();
  EXPECT_TRUE(world.block(a).spare.has(Tier::kHost));
  run_reaching(world);
  EXPECT_TRUE(leaves_by_a_copy(world, world.read(b)));
}

// It has never been written by anybody who named it.
TEST_F(EscapedAddressesTest, WhatIsExposedIsAliveOnceItIsThere) {
  World world(options(1));
  const AllocationId c = world.allocate(1);
  world.engine.expose(c);
  world.run({world.read(c)});
  EXPECT_EQ(world.block(c).contents, Contents::kLive);
}

TEST_F(EscapedAddressesTest, DeathEndsIt) {
  for (const bool frees : {true, false}) {
    World world(options(2));
    auto [a, b] = world.written_blocks<2>();
    world.engine.expose(a);
    if (frees) {
      world.free(a);
      a = world.allocate(1);
    } else {
      world.discard(a);
      world.engine.reuse(a);
    }
    EXPECT_FALSE(world.block(a).exposed);
  }
}

// What was said before it was exposed takes effect behind it.
TEST_F(EscapedAddressesTest, ADeathBeforeDoesNot) {
  World world(options(2));
  const auto [a, b] = world.written_blocks<2>();
  world.begin({world.read(a)}, 0);
  world.discard(a);
  world.engine.reuse(a);
  world.engine.expose(a);
  world.end(world.launches);
  EXPECT_TRUE(world.block(a).exposed);
}

}  // namespace
}  // namespace spillway
