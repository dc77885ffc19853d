// Blocks that are freed or discarded while a transfer of them is under way, or waits.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;

class WhileMoving : public testing::TestWithParam<bool> {
 protected:
  // Freed or discarded, as the parameter says.
  void kill(World& world, AllocationId id) { GetParam() ? world.free(id) : world.discard(id); }
};

TEST_P(WhileMoving, DeadOnItsWayDown) {
  for (const bool fails : {false, true}) {
    World world(one_at_a_time(2, 8, 0));
    const AllocationId a = world.allocate(1);
    const AllocationId b = world.allocate(2);
    world.write_all({a});
    world.begin({world.write(b)});
    ASSERT_THAT(world.calls(), Contains("evict device>host 0"));
    kill(world, a);
    EXPECT_EQ(world.engine.used_bytes(Tier::kHost), kBlockBytes);  // until the copy has ended
    fails ? world.fail() : world.finish();
    EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
    const auto calls = world.calls();
    EXPECT_THAT(calls, AllOf(Contains("drop 0 host"), Contains("drop 0 device"), no_transfer));
    EXPECT_THAT(calls, Contains("ready 2"));
  }
}

TEST_P(WhileMoving, DeadOnItsWayUp) {
  for (const bool fails : {false, true}) {
    World world(one_at_a_time(1, 8, 0));
    const auto [a, b] = world.written_blocks<2>();
    world.discard(b);
    world.prefetch(a);
    ASSERT_THAT(world.calls(), Contains("prefetch host>device 0"));
    kill(world, a);
    fails ? world.fail() : world.finish();
    EXPECT_THAT(world.calls(), AllOf(Contains("drop 0 host"), no_transfer));
    EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
    world.run({world.write(b)});
    EXPECT_THAT(world.calls(), no_transfer);
  }
}

TEST_P(WhileMoving, DeadOnItsWayFromHostToStorage) {
  for (const bool fails : {false, true}) {
    World world(one_at_a_time(1, 2, 2));
    const auto [a, b] = world.written_blocks<2>();
    world.pre_evict(a, Tier::kStorage);
    ASSERT_THAT(world.calls(), ElementsAre("pre_evict host>storage 0"));
    kill(world, a);
    fails ? world.fail() : world.finish();
    EXPECT_THAT(world.calls(), testing::UnorderedElementsAre("drop 0 host", "drop 0 storage"));
  }
}

// The eviction was decided, but another one holds the lane.
TEST_P(WhileMoving, DeadBeforeItsEvictionStarts) {
  World world(one_at_a_time(3, 8, 0));
  const auto [a, b] = world.written_blocks<2>();
  ASSERT_TRUE(world.engine.set_device_capacity(0).has_value());
  EXPECT_THAT(world.calls(), ElementsAre("unmap 0", "unmap 1", "evict device>host 0"));
  kill(world, b);
  EXPECT_EQ(world.stats().cancelled_evictions, 1U);
  world.finish();
  EXPECT_THAT(world.calls(), AllOf(Contains("drop 1 device"), no_transfer));
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), kBlockBytes);
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 0U);
  EXPECT_EQ(world.stats().recovered, 0U);
}

// A dead block is used again before its transfer has ended: it has no old contents then.
TEST(Discard, UsedAgainWhileItsDeadContentsStillMove) {
  for (const bool fails : {false, true}) {
    World world(one_at_a_time(2, 8, 0));
    const AllocationId a = world.allocate(1);
    world.write_all({a});
    world.pre_evict(a);
    world.discard(a);
    ASSERT_EQ(world.begin({world.write(a)}).state, LaunchState::kWaiting);
    world.forget();
    fails ? world.fail() : world.finish();
    EXPECT_THAT(world.calls(), ElementsAre("drop 0 host", "map 0", "ready 2"));
    world.end(2);
    EXPECT_EQ(world.block(a).contents, Contents::kLive);
  }
}

TEST_P(WhileMoving, QueuedPrefetchesOfTheDeadAreForgotten) {
  World world(one_at_a_time(2, 8, 0));
  const AllocationId a = world.allocate(2);
  const AllocationId b = world.allocate(2);
  world.write_all({a, b});
  world.discard(b);
  world.prefetch(a);  // 0 is under way, 1 waits
  kill(world, a);
  world.finish();
  EXPECT_TRUE(world.mechanism.under_way.empty());
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
}

INSTANTIATE_TEST_SUITE_P(Discard, WhileMoving, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "freed" : "discarded"; });

}  // namespace
}  // namespace spillway
