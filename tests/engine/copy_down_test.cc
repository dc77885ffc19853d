// Copies ahead of need of blocks that stay: in use as before, and gone without a transfer later.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using testing::StartsWith;

EngineOptions keeping(std::uint64_t device, std::uint64_t host) {
  EngineOptions options = one_at_a_time(device, host, 0);
  options.clean_copies = CleanCopies::kAll;
  return options;
}

// Wishes are made where policies make them: when a launch has ended.
void copy_down(World& world, AllocationId id) {
  world.policy.at_launch_end = [&world, id](const Launch&, Control& control) {
    control.copy_down(world.engine.space().allocation(id).first_block, Tier::kHost);
  };
  world.run({});
  world.policy.at_launch_end = nullptr;
}

TEST(CopyDown, TheBlockStaysAsItWasAndLeavesWithoutATransfer) {
  World world(keeping(2, 8));
  const auto [a, b] = world.written_blocks<2>();
  copy_down(world, a);
  EXPECT_THAT(world.calls(), AllOf(Contains("unmap 0"), Contains("pre_evict device>host 0")));
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("map 0"));
  EXPECT_EQ(world.block(a).queue, PageQueue::kUsed);
  EXPECT_TRUE(world.block(a).spare.has(Tier::kHost));
  world.run({world.write(world.allocate(1))});  // takes the place of the oldest, which is still a
  EXPECT_THAT(world.calls(), AllOf(Contains("drop 0 device"), no_transfer));
  EXPECT_TRUE(world.block(b).mapped);
  EXPECT_TRUE(world.block(a).copies.has(Tier::kHost));
}

TEST(CopyDown, WhatIsWrittenAfterwardsIsCopiedAgain) {
  World world(keeping(1, 8));
  const AllocationId a = world.allocate(1);
  world.write_all({a});
  copy_down(world, a);
  world.finish();
  world.run({world.write(a)});
  EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
  world.forget();
  world.run({world.write(world.allocate(1))});
  EXPECT_THAT(world.calls(), Contains("evict device>host 0"));
}

TEST(CopyDown, ALaunchThatWantsTheBlockMeanwhileWaitsForTheCopyOnly) {
  World world(keeping(2, 8));
  const AllocationId a = world.allocate(1);
  world.write_all({a});
  copy_down(world, a);
  world.forget();
  world.begin({world.write(a)});
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("ready"))));
  world.finish();
  EXPECT_THAT(world.calls(), AllOf(Contains("map 0"), Contains("ready 3")));
  world.end(3);
  EXPECT_FALSE(world.block(a).frames.has(Tier::kHost));
}

TEST(CopyDown, IsNoVictimMeanwhileNorClaimedByOneThatIsNeededLast) {
  World world(keeping(2, 8));
  const auto [a, b] = world.written_blocks<2>();
  copy_down(world, a);
  EXPECT_EQ(world.engine.queues().oldest(PageQueue::kUsed),
            world.engine.space().allocation(b).first_block);
  EXPECT_EQ(world.engine.queues().oldest_unclaimed(),
            world.engine.space().allocation(b).first_block);
  world.begin({world.write(world.allocate(1))});  // b goes, or this waits for a
  world.finish_all();
  world.end(world.launches);
  EXPECT_TRUE(world.block(a).copies.has(Tier::kHost));
}

TEST(CopyDown, WhatDiesOrIsFreedMeanwhileLeavesNothingBelow) {
  for (const bool freed : {false, true}) {
    World world(keeping(2, 8));
    const AllocationId a = world.allocate(1);
    world.write_all({a});
    copy_down(world, a);
    freed ? world.free(a) : world.discard(a);
    world.finish();
    EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
  }
}

TEST(CopyDown, ThatFailsLeavesTheBlockInUse) {
  World world(keeping(2, 8));
  const AllocationId a = world.allocate(1);
  world.write_all({a});
  copy_down(world, a);
  world.fail();
  EXPECT_TRUE(world.block(a).mapped);
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
  EXPECT_EQ(world.engine.queues().oldest(PageQueue::kUsed),
            world.engine.space().allocation(a).first_block);
}

TEST(CopyDown, OfWhatIsSafeBelowIsNothing) {
  World world(keeping(1, 8));
  const auto [a, b] = world.written_blocks<2>();
  world.run({world.read(a)});  // comes back, and is clean
  world.forget();
  copy_down(world, a);
  EXPECT_THAT(world.calls(), no_transfer);
  EXPECT_TRUE(world.block(a).mapped);
}

TEST(CopyDown, WhereCleanCopiesAreNotKeptTheFrameIsGivenUp) {
  World world(one_at_a_time(2, 8, 0));
  const AllocationId a = world.allocate(1);
  world.write_all({a});
  copy_down(world, a);
  world.finish();
  EXPECT_EQ(world.block(a).queue, PageQueue::kUnused);
}

}  // namespace
}  // namespace spillway
