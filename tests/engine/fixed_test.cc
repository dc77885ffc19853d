// What is fixed stays on the device, and launches have what is left of it.
#include "engine/engine_world.h"

namespace spillway {
namespace {

constexpr std::size_t kDevice = 4;  // blocks

class Fixed : public ::testing::Test {
 protected:
  Fixed() : world(one_at_a_time(kDevice, 32, 0)) {}
  // Between the release of a launch that uses all of it and its end.
  AllocationId fixed(std::uint64_t blocks) {
    const AllocationId id = world.allocate(blocks);
    world.begin({world.write(id)});
    world.finish_all();
    EXPECT_TRUE(world.engine.fix(id).has_value());
    world.check();
    world.end(world.launches);
    return id;
  }
  World world;
};

TEST_F(Fixed, NothingMakesItLeave) {
  const AllocationId stays = fixed(2);
  const std::vector<AllocationId> others = world.allocate_single_blocks(4);
  for (int round = 0; round < 3; ++round) {
    for (const AllocationId id : others) {
      world.run({world.write(id)});
    }
  }
  world.pre_evict(stays);
  world.finish_all();
  EXPECT_TRUE(world.block(stays, 0).copies.has(Tier::kDevice));
  EXPECT_TRUE(world.block(stays, 1).copies.has(Tier::kDevice));
  EXPECT_TRUE(world.block(stays, 0).mapped);
  EXPECT_EQ(world.engine.fixed_bytes(), 2 * kBlockBytes);
}

TEST_F(Fixed, LaunchesHaveWhatIsLeft) {
  const AllocationId stays = fixed(2);
  const AllocationId fits = world.allocate(2);
  const AllocationId too_large = world.allocate(3);
  EXPECT_EQ(world.engine.issue_launch({.accesses = {world.write(too_large)}}).state,
            LaunchState::kTooLarge);
  EXPECT_EQ(world.engine.fit({.accesses = {world.write(too_large)}}).state, LaunchState::kTooLarge);
  // What is fixed takes nothing of it.
  EXPECT_EQ(world.engine.fit({.accesses = {world.write(fits), world.read(stays)}}).state,
            LaunchState::kReady);
  EXPECT_EQ(world.engine.fit({}).held_bytes, 2 * kBlockBytes);
  world.run({world.write(fits), world.read(stays)});
}

// One that the policy wants alone need not wait for what is fixed, which never ends.
TEST_F(Fixed, ALaunchIsAloneBesideIt) {
  fixed(2);
  world.policy.admitted_at_once.bytes = 0;
  const AllocationId one = world.allocate(1);
  const AllocationId other = world.allocate(1);
  EXPECT_EQ(world.begin({world.write(one)}).state, LaunchState::kReady);
  EXPECT_EQ(world.begin({world.write(other)}).state, LaunchState::kWaiting);
  world.end(2);
  EXPECT_EQ(world.mechanism.calls.back(), "ready 3");
  world.end(3);
}

TEST_F(Fixed, WhatIsFreedIsRoomForALaunchThatWaits) {
  const AllocationId stays = fixed(2);
  const std::vector<AllocationId> others = world.allocate_single_blocks(3);
  world.begin({world.write(others[0]), world.write(others[1])});
  EXPECT_EQ(world.begin({world.write(others[2])}).state, LaunchState::kWaiting);
  world.free(stays);
  EXPECT_EQ(world.engine.fixed_bytes(), 0U);
  EXPECT_EQ(world.mechanism.calls.back(), "ready 3");
  world.end(2);
  world.end(3);
}

// Also where its end takes effect only with that of a launch.
TEST_F(Fixed, ItStaysUntilTheLastLaunchThatUsesItHasEnded) {
  const AllocationId stays = fixed(2);
  world.begin({world.write(stays)});
  world.free(stays);
  EXPECT_EQ(world.engine.fixed_bytes(), 2 * kBlockBytes);
  world.end(2);
  EXPECT_EQ(world.engine.fixed_bytes(), 0U);
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 0U);
}

TEST_F(Fixed, WhatWouldLeaveTooLittleForALaunchIsRefused) {
  const AllocationId large = world.allocate(3);
  const AllocationId small = world.allocate(2);
  world.begin({world.write(small)});
  world.begin({world.write(large)});  // waits
  EXPECT_FALSE(world.engine.fix(small).has_value());
  world.check();
  EXPECT_EQ(world.engine.fixed_bytes(), 0U);
  world.end(1);
  world.finish_all();
  world.end(2);
}

TEST_F(Fixed, ABudgetHasRoomForItAndTheLargestLaunch) {
  fixed(1);
  const AllocationId used = world.allocate(2);
  world.begin({world.write(used)});
  EXPECT_FALSE(world.engine.set_device_capacity(2 * kBlockBytes).has_value());
  EXPECT_TRUE(world.engine.set_device_capacity(3 * kBlockBytes).has_value());
  world.end(2);
  EXPECT_FALSE(world.engine.set_device_capacity(0).has_value());
  EXPECT_TRUE(world.engine.set_device_capacity(kBlockBytes).has_value());
  world.finish_all();
}

// Two in one frame: it stays for the second one's sake.
TEST_F(Fixed, AFrameThatSmallOnesShareStaysForEach) {
  EngineOptions options = one_at_a_time(kDevice, 32, 0);
  options.device_frame_bytes = kBlockBytes;
  World shared(options);
  const AllocationId one = shared.allocate_bytes(512);
  const AllocationId other = shared.allocate_bytes(512);
  shared.begin({shared.write(one), shared.write(other)});
  EXPECT_TRUE(shared.engine.fix(one).has_value());
  EXPECT_TRUE(shared.engine.fix(other).has_value());
  EXPECT_TRUE(shared.engine.fix(other).has_value());  // it is
  shared.end(1);
  EXPECT_EQ(shared.engine.fixed_bytes(), kBlockBytes);
  shared.free(one);
  EXPECT_EQ(shared.engine.fixed_bytes(), kBlockBytes);
  shared.free(other);
  EXPECT_EQ(shared.engine.fixed_bytes(), 0U);
}

}  // namespace
}  // namespace spillway
