// Blocks that launches use where they lie in host memory. docs/cuda.md.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Two blocks of room, and memory for two more beside the host tier.
class HostMapped : public ::testing::Test {
 protected:
  explicit HostMapped(const EngineOptions& options = one_at_a_time(2, 8, 0)) : world(options) {
    world.engine.set_host_mapped_capacity(2 * kBlockBytes);
    world.policy.at_launch_end = [this](const Launch&, Control& control) {
      for (const BlockId id : std::exchange(host_mapped, {})) {
        became += control.set_host_mapped(id) ? 1 : 0;
      }
      for (const BlockId id : std::exchange(near, {})) {
        control.clear_host_mapped(id);
      }
    };
  }
  // `count` blocks that are written, of which the first had to leave.
  template <std::size_t count = 3>
  std::array<AllocationId, count> written() {
    const auto ids = world.written_blocks<count>();
    EXPECT_FALSE(world.block(ids[0]).frames.has(Tier::kDevice));
    EXPECT_TRUE(world.block(ids[0]).copies.has(Tier::kHost));
    return ids;
  }
  [[nodiscard]] BlockId first_block(AllocationId id) const {
    return world.engine.space().allocation(id).first_block;
  }
  // At the end of a launch that does nothing else; what moves then is left under way.
  void begin_far(AllocationId id) {
    host_mapped = {first_block(id)};
    world.begin({});
    world.end(world.launches);
  }
  void begin_near(AllocationId id) {
    near = {first_block(id)};
    world.begin({});
    world.end(world.launches);
  }
  void make_far(AllocationId id) {
    begin_far(id);
    world.finish_all();
  }
  void make_near(AllocationId id) {
    begin_near(id);
    world.finish_all();
  }

  World world;
  std::vector<BlockId> host_mapped;
  std::vector<BlockId> near;
  int became = 0;
};

TEST_F(HostMapped, ComesIntoHostMemoryAndTakesNothingOfTheDevice) {
  const auto [a, b, c] = written();
  begin_far(a);
  EXPECT_EQ(became, 1);
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
  world.finish_all();
  EXPECT_THAT(world.calls(), Contains(HasSubstr("prefetch host>device")));
  EXPECT_TRUE(world.block(a).host_mapped);
  EXPECT_TRUE(world.block(a).mapped);
  EXPECT_EQ(world.engine.host_mapped_bytes(), kBlockBytes);
  EXPECT_EQ(world.stats().host_mapped_bytes, kBlockBytes);
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
  const LaunchAdmission admission = world.begin({world.write(a), world.read(b)});
  EXPECT_EQ(admission.state, LaunchState::kReady);
  EXPECT_EQ(admission.missing_blocks, 0U);
  world.end(world.launches);
  EXPECT_TRUE(world.block(c).mapped);
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
}

TEST_F(HostMapped, NeverMakesWay) {
  const auto [a, b, c] = written();
  make_far(a);
  world.forget();
  world.policy.victim = [&](Cause) { return std::optional(first_block(a)); };
  for (int i = 0; i < 4; ++i) {
    world.run({world.write(world.allocate(1))});
  }
  EXPECT_TRUE(world.block(a).host_mapped);
  EXPECT_TRUE(world.block(a).mapped);
  const std::string out = fmt::format("evict device>host {}", first_block(a));
  EXPECT_THAT(world.calls(), Not(Contains(out)));
}

TEST_F(HostMapped, OnlyWhatLiesInHostMemoryAndNoAdmittedLaunchNames) {
  const auto [a, b, c] = written();
  make_far(b);  // on the device
  EXPECT_EQ(became, 0);
  world.begin({world.read(a)});  // waits for it
  begin_far(a);
  EXPECT_EQ(became, 0);
  world.finish_all();
  world.end(world.launches - 1);
  EXPECT_EQ(world.engine.host_mapped_bytes(), 0U);
}

TEST_F(HostMapped, WhatLaunchesToComeName) {
  const auto [a, b, c] = written();
  world.begin({world.read(b), world.write(c)}, 0);
  world.begin({world.write(a)}, 0);
  begin_far(a);
  EXPECT_EQ(became, 1);
  world.finish_all();
  world.end(world.launches - 2);
  world.finish_all();
  world.end(world.launches - 1);
  EXPECT_TRUE(world.block(a).host_mapped);
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
}

TEST_F(HostMapped, NoMoreThanThereIsMemoryFor) {
  const auto ids = written<5>();
  for (std::size_t i = 0; i < 3; ++i) {
    make_far(ids[i]);
  }
  EXPECT_EQ(became, 2);
  EXPECT_EQ(world.engine.host_mapped_bytes(), 2 * kBlockBytes);
  world.engine.set_host_mapped_capacity(0);
  EXPECT_TRUE(world.block(ids[0]).host_mapped);
}

TEST_F(HostMapped, GoesBackToTheHostTierAndIsLikeAnyOtherThen) {
  const auto [a, b, c] = written();
  make_far(a);
  world.run({world.write(a)});
  world.forget();
  make_near(a);
  EXPECT_THAT(world.calls(), Contains(fmt::format("pre_evict device>host {}", first_block(a))));
  EXPECT_FALSE(world.block(a).host_mapped);
  EXPECT_TRUE(world.block(a).frames.has(Tier::kHost));
  EXPECT_FALSE(world.block(a).frames.has(Tier::kDevice));
  EXPECT_EQ(world.engine.host_mapped_bytes(), 0U);
  world.run({world.read(a)});
  EXPECT_TRUE(world.block(a).copies.has(Tier::kDevice));
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
}

TEST_F(HostMapped, StaysIfALaunchComesWhileItGoesBack) {
  const auto [a, b, c] = written();
  make_far(a);
  begin_near(a);
  ASSERT_EQ(world.mechanism.under_way.size(), 1U);
  const LaunchAdmission admission = world.begin({world.read(a)});
  EXPECT_EQ(admission.state, LaunchState::kWaiting);
  world.finish_all();
  EXPECT_TRUE(world.block(a).host_mapped);
  world.end(world.launches);
  EXPECT_EQ(world.engine.host_mapped_bytes(), kBlockBytes);
}

TEST_F(HostMapped, AFailedWayBackChangesNothing) {
  const auto [a, b, c] = written();
  make_far(a);
  begin_near(a);
  world.fail();
  EXPECT_TRUE(world.block(a).host_mapped);
  EXPECT_TRUE(world.block(a).mapped);
}

TEST_F(HostMapped, IsNearAgainIfItCannotCome) {
  const auto [a, b, c] = written();
  begin_far(a);
  world.fail();
  EXPECT_FALSE(world.block(a).host_mapped);
  EXPECT_EQ(world.engine.host_mapped_bytes(), 0U);
  EXPECT_TRUE(world.block(a).copies.has(Tier::kHost));
  world.run({world.read(a)});
  EXPECT_TRUE(world.block(a).copies.has(Tier::kDevice));
}

TEST_F(HostMapped, EndsWithWhatItHeld) {
  const auto [a, b, c] = written();
  make_far(a);
  world.discard(a);
  EXPECT_FALSE(world.block(a).host_mapped);
  EXPECT_TRUE(world.block(a).frames.empty());
  EXPECT_EQ(world.engine.host_mapped_bytes(), 0U);
  world.run({world.write(a)});
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
}

TEST_F(HostMapped, EndsWithItsAllocation) {
  const auto [a, b, c] = written();
  make_far(a);
  const BlockId block = first_block(a);
  world.free(a);
  EXPECT_EQ(world.engine.host_mapped_bytes(), 0U);
  EXPECT_FALSE(world.engine.space().block(block).host_mapped);
}

TEST_F(HostMapped, DeadOnItsWay) {
  for (const bool freed : {false, true}) {
    const auto [a, b, c] = written();
    begin_far(a);
    freed ? world.free(a) : world.discard(a);
    world.finish_all();
    world.check();
    EXPECT_EQ(world.engine.host_mapped_bytes(), 0U);
    for (const AllocationId id : {b, c}) {
      world.free(id);
    }
    if (!freed) {
      world.free(a);
    }
  }
}

// What is issued behind the death names it, and has been let in for all that it may need.
TEST_F(HostMapped, DeadAndNamedIsNearAllTheSame) {
  const auto [a, b, c] = written();
  make_far(a);
  world.begin({world.read(a)}, 0);
  world.discard(a);
  world.begin({world.read(b), world.read(c)}, 0);
  world.begin({world.write(a)}, 0);
  for (std::uint64_t launch = world.launches - 2; launch <= world.launches; ++launch) {
    world.finish_all();
    world.end(launch);
  }
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
  EXPECT_EQ(world.engine.host_mapped_bytes(), 0U);
  EXPECT_LE(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
}

// Also where a launch waits for it.
TEST_F(HostMapped, IsNearAgainIfItCannotComeToALaunchThatWaits) {
  const auto [a, b, c] = written();
  begin_far(a);
  world.begin({world.read(a)});
  world.fail();
  EXPECT_EQ(world.engine.host_mapped_bytes(), 0U);
  world.finish_all();
  world.end(world.launches);
  EXPECT_TRUE(world.block(a).copies.has(Tier::kDevice));
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
}

// Who overwrites all of it wants nothing of what was there.
TEST_F(HostMapped, OverwrittenOnItsWay) {
  const auto [a, b, c] = written();
  world.begin({world.read(b)});  // and the other transfers wait
  begin_far(a);
  world.begin({world.overwrite(a)});
  world.finish_all();
  world.end(world.launches);
  world.end(world.launches - 2);
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
}

TEST_F(HostMapped, NotWhatCanBeMadeAgainNorWhatIsShared) {
  world.policy.gives_up = true;
  const auto [a, b, c] = written();
  world.engine.set_recomputable(a, true);
  make_far(a);
  EXPECT_EQ(became, 0);
}

TEST_F(HostMapped, SomeBlocksOfAnAllocation) {
  const AllocationId a = world.allocate(2);
  world.run({world.write(a)});
  const AllocationId b = world.allocate(1);
  world.run({world.write(b)});
  host_mapped = {first_block(a), first_block(a) + 1};
  world.run({});
  EXPECT_EQ(became, 1);
  world.finish_all();
  world.forget();
  world.run({world.write(a)});
  world.run({world.read(b)});
  EXPECT_THAT(world.calls(), no_transfer);
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
}

}  // namespace
}  // namespace spillway
