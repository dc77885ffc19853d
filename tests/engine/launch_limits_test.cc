// What launches that have not ended forbid, and counters that must not wrap.
#include "engine/engine_world.h"

namespace spillway {
namespace {

TEST(LaunchLimits, ABudgetBelowTheNeedOfALaunchThatWaitsIsRefused) {
  World world(one_at_a_time(8, 32, 0));
  world.policy.admitted_at_once.launches_per_stream = 1;
  const AllocationId small = world.allocate(1);
  const AllocationId large = world.allocate(5);
  world.begin({world.write(small)}, 0);
  world.begin({world.write(large)}, 0);  // waits
  world.begin({world.write(small)}, 0);
  EXPECT_FALSE(world.engine.set_device_capacity(4 * kBlockBytes).has_value());
  EXPECT_EQ(world.engine.capacity_bytes(Tier::kDevice), 8 * kBlockBytes);
  EXPECT_TRUE(world.engine.set_device_capacity(5 * kBlockBytes).has_value());
  world.end(1);
  EXPECT_FALSE(world.engine.set_device_capacity(4 * kBlockBytes).has_value());
  world.finish_all();
  world.end(2);  // the largest has ended, and others have not
  EXPECT_TRUE(world.engine.set_device_capacity(kBlockBytes).has_value());
  world.finish_all();
  world.end(3);
}

// In the order of issue: 5 blocks, then 1 and 1.
TEST(LaunchLimits, WhatHasEndedForbidsNothing) {
  World world(one_at_a_time(8, 32, 0));
  const AllocationId small = world.allocate(1);
  const AllocationId large = world.allocate(5);
  const AllocationId middle = world.allocate(3);
  world.begin({world.write(large)}, 0);
  world.begin({world.write(small)}, 0);
  world.begin({world.write(small)}, 0);
  world.end(1);
  EXPECT_TRUE(world.engine.set_device_capacity(2 * kBlockBytes).has_value());
  world.finish_all();
  ASSERT_TRUE(world.engine.set_device_capacity(8 * kBlockBytes).has_value());
  // Out of order: the largest ends first, the oldest is still there.
  world.begin({world.write(large)}, 1);
  world.begin({world.write(middle)}, 2);
  world.finish_all();
  world.end(4);
  EXPECT_FALSE(world.engine.set_device_capacity(2 * kBlockBytes).has_value());
  EXPECT_TRUE(world.engine.set_device_capacity(4 * kBlockBytes).has_value());
  world.finish_all();
  for (const std::uint64_t launch : {2U, 3U, 5U}) {
    world.end(launch);
  }
}

TEST(LaunchLimits, OperandsThatOverlapNeedNoMoreThanTheirBlocks) {
  World world(one_at_a_time(8, 32, 0));
  const AllocationId a = world.allocate(3);
  world.begin({world.read(a), world.write(a)}, 0);
  EXPECT_TRUE(world.engine.set_device_capacity(3 * kBlockBytes).has_value());
  world.begin({world.read(a), world.write(a)}, 0);
  EXPECT_FALSE(world.engine.set_device_capacity(2 * kBlockBytes).has_value());
  world.end(1);
  world.end(2);
}

// Both were counted in 16 bits once.
TEST(LaunchLimits, MoreThan65535PinsAndTenantsOfOneBlock) {
  constexpr std::uint32_t kMany = 70'000;
  EngineOptions options = one_at_a_time(64, 64, 0);
  options.device_frame_bytes = 32 * kMiB;
  RecordingMechanism mechanism;
  ScriptedPolicy policy;
  Engine engine(options, mechanism, policy);
  std::vector<AllocationId> tenants;
  std::vector<LaunchId> launches;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    tenants.push_back(*engine.allocate(1, 0));
    ASSERT_EQ(engine.space().allocation(tenants.back()).first_block, 0U);
    launches.push_back(
        engine.issue_launch({.tag = i, .accesses = {{tenants.back(), 0, 1, AccessMode::kWrite}}})
            .id);
  }
  EXPECT_EQ(engine.space().block(0).pins, kMany);
  EXPECT_EQ(engine.space().block(0).tenants, kMany);
  EXPECT_TRUE(engine.check_invariants().has_value());
  for (std::uint32_t i = 0; i + 1 < kMany; ++i) {
    engine.free(tenants[i]);
    engine.end_launch(launches[i]);
  }
  EXPECT_EQ(engine.space().block(0).pins, 1U);
  EXPECT_EQ(engine.space().block(0).tenants, 1U);
  EXPECT_TRUE(engine.space().block(0).mapped);
  EXPECT_TRUE(engine.check_invariants().has_value());
  engine.end_launch(launches.back());
  engine.free(tenants.back());
  EXPECT_EQ(engine.used_bytes(Tier::kDevice), 0U);
  EXPECT_TRUE(engine.check_invariants().has_value());
}

}  // namespace
}  // namespace spillway
