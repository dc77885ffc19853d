// An engine whose device's capacity is a limit and no target, and memory that is given its frames
// before anybody stops at it.
#include "engine/thread_faults.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// For little memory: at first, and where it comes back to what it has lost.
constexpr Bytes kSlackBlocks = 1;
constexpr Bytes kMostSlackBlocks = 8;

EngineOptions frugal(std::uint64_t device, std::uint64_t host) {
  EngineOptions options = tracking(device, host);
  options.frugal = true;
  return options;
}

Bytes blocks_used(const World& world) {
  return world.engine.used_bytes(Tier::kDevice) / kBlockBytes;
}

TEST(Frugal, DeadFramesAreTakenBeforeFreeOnes) {
  for (const bool is_frugal : {true, false}) {
    EngineOptions options = tracking(64, 64);
    options.frugal = is_frugal;
    World world(options);
    for (int i = 0; i < 40; ++i) {
      const AllocationId id = world.allocate(1);
      touch(world, id, true);
      world.discard(id, DiscardMode::kLazy);
    }
    EXPECT_EQ(blocks_used(world), is_frugal ? 1 + kSlackBlocks : 40);
    EXPECT_EQ(world.engine.frugal_bytes() / kBlockBytes, is_frugal ? 1 + kSlackBlocks : 64);
  }
}

// As a program does that allocates and frees in turns, in more sizes than it has alive at once.
TEST(Frugal, WhatComesBackToNothingKeepsMoreFromThenOn) {
  World world(frugal(64, 64));
  constexpr std::size_t kTurns = 6;
  std::vector<AllocationId> ids;
  for (std::size_t i = 0; i < kTurns; ++i) {
    ids.push_back(world.allocate(1));
    touch(world, ids.back(), true);
    world.discard(ids.back(), DiscardMode::kLazy);
  }
  EXPECT_EQ(blocks_used(world), 1 + kSlackBlocks);
  for (int round = 0; round < 4; ++round) {
    for (const AllocationId id : ids) {
      world.engine.reuse(id);
      touch(world, id, true);
      world.discard(id, DiscardMode::kLazy);
    }
  }
  EXPECT_EQ(blocks_used(world), kTurns);
  world.forget();
  for (const AllocationId id : ids) {
    world.engine.reuse(id);
  }
  EXPECT_THAT(world.calls(), IsEmpty());  // all are where they were
}

TEST(Frugal, WhatComesBackHasABound) {
  World world(frugal(64, 64));
  const std::vector<AllocationId> ids = world.allocate_single_blocks(32);
  for (int round = 0; round < 4; ++round) {
    for (const AllocationId id : ids) {
      world.engine.reuse(id);
      touch(world, id, true);
      world.discard(id, DiscardMode::kLazy);
    }
  }
  EXPECT_EQ(blocks_used(world), 1 + kMostSlackBlocks);
}

// What was alive at once may be in use again.
TEST(Frugal, MayUseWhatWasEverAliveAtOnce) {
  World world(frugal(64, 64));
  const std::vector<AllocationId> ids = world.allocate_single_blocks(32);
  for (const AllocationId id : ids) {
    touch(world, id, true);
  }
  for (const AllocationId id : ids) {
    world.discard(id, DiscardMode::kLazy);
  }
  touch(world, world.allocate(1), true);
  EXPECT_EQ(blocks_used(world), 33U);
  world.forget();
  world.engine.reuse(ids[0]);
  EXPECT_THAT(world.calls(), IsEmpty());  // it is where it was
}

TEST(Frugal, NoWishMovesWhatFits) {
  World world(frugal(2, 4));
  const AllocationId alive = world.allocate(1);
  const AllocationId dead = world.allocate(1);
  const AllocationId other = world.allocate(1);
  touch(world, alive, true);
  touch(world, dead, true);
  world.discard(dead, DiscardMode::kLazy);
  touch(world, other, true);  // takes its frame
  world.policy.at_launch = [&](const Launch&, Control& control) {
    control.pre_evict(0, Tier::kHost);
    control.prefetch(1);
  };
  world.forget();
  world.run({});
  EXPECT_THAT(world.calls(), ElementsAre("ready 1"));
  EXPECT_FALSE(world.block(dead).frames.has(Tier::kDevice));

  // Something has to leave for a fault: from now on policies may be right.
  touch_through(world, world.allocate(1), true);
  EXPECT_EQ(world.stats().moved(Tier::kDevice, Tier::kHost), kBlockBytes);
  world.free(other);
  world.run({});
  EXPECT_TRUE(world.block(dead).frames.has(Tier::kDevice));
}

// The program knows what it does.
TEST(Frugal, TheProgramsOwnHintsAreHeeded) {
  World world(frugal(2, 4));
  const AllocationId a = world.allocate(1);
  touch(world, a, true);
  world.pre_evict(a);
  world.finish_all();
  EXPECT_TRUE(world.block(a).copies.has(Tier::kHost));
}

TEST(Provide, GivesFramesAsFarAsNothingAliveHasToLeave) {
  World world(tracking(3, 4));
  const AllocationId alive = world.allocate(1);
  const AllocationId dead = world.allocate(1);
  touch(world, alive, true);
  touch(world, dead, true);
  world.discard(dead, DiscardMode::kLazy);
  const AllocationId wanted = world.allocate(3);
  world.forget();
  world.engine.provide(wanted);
  world.check();
  EXPECT_THAT(world.calls(),
              ElementsAre("unmap 1", "drop 1 device", "zero 2", "zero 3", "map 2", "map 3"));
  EXPECT_TRUE(world.block(wanted, 1).writable);
  EXPECT_TRUE(world.block(wanted, 2).frames.empty());
  EXPECT_TRUE(world.block(alive).copies.has(Tier::kDevice));
  EXPECT_THAT(world.policy.faults, ElementsAre(0, 1));
}

TEST(Provide, LeavesContentsAlone) {
  World world(tracking(1, 4));
  const AllocationId a = world.allocate(1);
  touch(world, a, true);
  touch_through(world, world.allocate(1), true);  // a goes to host memory
  world.forget();
  world.engine.provide(a);
  EXPECT_THAT(world.calls(), IsEmpty());
  EXPECT_TRUE(world.block(a).copies.has(Tier::kHost));
}

}  // namespace
}  // namespace spillway
