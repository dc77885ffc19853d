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
class Far : public ::testing::Test {
 protected:
  explicit Far(const EngineOptions& options = one_at_a_time(2, 8, 0)) : world(options) {
    world.engine.set_far_capacity(2 * kBlockBytes);
    world.policy.at_launch_end = [this](const Launch&, Control& control) {
      for (const BlockId id : std::exchange(far, {})) {
        became += control.set_far(id) ? 1 : 0;
      }
      for (const BlockId id : std::exchange(near, {})) {
        control.set_near(id);
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
    far = {first_block(id)};
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
  std::vector<BlockId> far;
  std::vector<BlockId> near;
  int became = 0;
};

TEST_F(Far, ComesIntoHostMemoryAndTakesNothingOfTheDevice) {
  const auto [a, b, c] = written();
  begin_far(a);
  EXPECT_EQ(became, 1);
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
  world.finish_all();
  EXPECT_THAT(world.calls(), Contains(HasSubstr("prefetch host>device")));
  EXPECT_TRUE(world.block(a).far);
  EXPECT_TRUE(world.block(a).mapped);
  EXPECT_EQ(world.engine.far_bytes(), kBlockBytes);
  EXPECT_EQ(world.stats().far_bytes, kBlockBytes);
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
  const LaunchAdmission admission = world.begin({world.write(a), world.read(b)});
  EXPECT_EQ(admission.state, LaunchState::kReady);
  EXPECT_EQ(admission.missing_blocks, 0U);
  world.end(world.launches);
  EXPECT_TRUE(world.block(c).mapped);
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
}

TEST_F(Far, NeverMakesWay) {
  const auto [a, b, c] = written();
  make_far(a);
  world.forget();
  world.policy.victim = [&](Cause) { return std::optional(first_block(a)); };
  for (int i = 0; i < 4; ++i) {
    world.run({world.write(world.allocate(1))});
  }
  EXPECT_TRUE(world.block(a).far);
  EXPECT_TRUE(world.block(a).mapped);
  const std::string out = fmt::format("evict device>host {}", first_block(a));
  EXPECT_THAT(world.calls(), Not(Contains(out)));
}

TEST_F(Far, OnlyWhatLiesInHostMemoryAndNoAdmittedLaunchNames) {
  const auto [a, b, c] = written();
  make_far(b);  // on the device
  EXPECT_EQ(became, 0);
  world.begin({world.read(a)});  // waits for it
  begin_far(a);
  EXPECT_EQ(became, 0);
  world.finish_all();
  world.end(world.launches - 1);
  EXPECT_EQ(world.engine.far_bytes(), 0U);
}

TEST_F(Far, WhatLaunchesToComeName) {
  const auto [a, b, c] = written();
  world.begin({world.read(b), world.write(c)}, 0);
  world.begin({world.write(a)}, 0);
  begin_far(a);
  EXPECT_EQ(became, 1);
  world.finish_all();
  world.end(world.launches - 2);
  world.finish_all();
  world.end(world.launches - 1);
  EXPECT_TRUE(world.block(a).far);
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
}

TEST_F(Far, NoMoreThanThereIsMemoryFor) {
  const auto ids = written<5>();
  for (std::size_t i = 0; i < 3; ++i) {
    make_far(ids[i]);
  }
  EXPECT_EQ(became, 2);
  EXPECT_EQ(world.engine.far_bytes(), 2 * kBlockBytes);
  world.engine.set_far_capacity(0);
  EXPECT_TRUE(world.block(ids[0]).far);
}

TEST_F(Far, GoesBackToTheHostTierAndIsLikeAnyOtherThen) {
  const auto [a, b, c] = written();
  make_far(a);
  world.run({world.write(a)});
  world.forget();
  make_near(a);
  EXPECT_THAT(world.calls(), Contains(fmt::format("pre_evict device>host {}", first_block(a))));
  EXPECT_FALSE(world.block(a).far);
  EXPECT_TRUE(world.block(a).frames.has(Tier::kHost));
  EXPECT_FALSE(world.block(a).frames.has(Tier::kDevice));
  EXPECT_EQ(world.engine.far_bytes(), 0U);
  world.run({world.read(a)});
  EXPECT_TRUE(world.block(a).copies.has(Tier::kDevice));
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
}

TEST_F(Far, StaysIfALaunchComesWhileItGoesBack) {
  const auto [a, b, c] = written();
  make_far(a);
  begin_near(a);
  ASSERT_EQ(world.mechanism.under_way.size(), 1U);
  const LaunchAdmission admission = world.begin({world.read(a)});
  EXPECT_EQ(admission.state, LaunchState::kWaiting);
  world.finish_all();
  EXPECT_TRUE(world.block(a).far);
  world.end(world.launches);
  EXPECT_EQ(world.engine.far_bytes(), kBlockBytes);
}

TEST_F(Far, AFailedWayBackChangesNothing) {
  const auto [a, b, c] = written();
  make_far(a);
  begin_near(a);
  world.fail();
  EXPECT_TRUE(world.block(a).far);
  EXPECT_TRUE(world.block(a).mapped);
}

TEST_F(Far, IsNearAgainIfItCannotCome) {
  const auto [a, b, c] = written();
  begin_far(a);
  world.fail();
  EXPECT_FALSE(world.block(a).far);
  EXPECT_EQ(world.engine.far_bytes(), 0U);
  EXPECT_TRUE(world.block(a).copies.has(Tier::kHost));
  world.run({world.read(a)});
  EXPECT_TRUE(world.block(a).copies.has(Tier::kDevice));
}

TEST_F(Far, EndsWithWhatItHeld) {
  const auto [a, b, c] = written();
  make_far(a);
  world.discard(a);
  EXPECT_FALSE(world.block(a).far);
  EXPECT_TRUE(world.block(a).frames.empty());
  EXPECT_EQ(world.engine.far_bytes(), 0U);
  world.run({world.write(a)});
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
}

TEST_F(Far, EndsWithItsAllocation) {
  const auto [a, b, c] = written();
  make_far(a);
  const BlockId block = first_block(a);
  world.free(a);
  EXPECT_EQ(world.engine.far_bytes(), 0U);
  EXPECT_FALSE(world.engine.space().block(block).far);
}

TEST_F(Far, DeadOnItsWay) {
  for (const bool freed : {false, true}) {
    const auto [a, b, c] = written();
    begin_far(a);
    freed ? world.free(a) : world.discard(a);
    world.finish_all();
    world.check();
    EXPECT_EQ(world.engine.far_bytes(), 0U);
    for (const AllocationId id : {b, c}) {
      world.free(id);
    }
    if (!freed) {
      world.free(a);
    }
  }
}

// What is issued behind the death names it, and has been let in for all that it may need.
TEST_F(Far, DeadAndNamedIsNearAllTheSame) {
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
  EXPECT_EQ(world.engine.far_bytes(), 0U);
  EXPECT_LE(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
}

// Also where a launch waits for it.
TEST_F(Far, IsNearAgainIfItCannotComeToALaunchThatWaits) {
  const auto [a, b, c] = written();
  begin_far(a);
  world.begin({world.read(a)});
  world.fail();
  EXPECT_EQ(world.engine.far_bytes(), 0U);
  world.finish_all();
  world.end(world.launches);
  EXPECT_TRUE(world.block(a).copies.has(Tier::kDevice));
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
}

// Who overwrites all of it wants nothing of what was there.
TEST_F(Far, OverwrittenOnItsWay) {
  const auto [a, b, c] = written();
  world.begin({world.read(b)});  // and the other transfers wait
  begin_far(a);
  world.begin({world.overwrite(a)});
  world.finish_all();
  world.end(world.launches);
  world.end(world.launches - 2);
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
}

TEST_F(Far, NotWhatCanBeMadeAgainNorWhatIsShared) {
  world.policy.gives_up = true;
  const auto [a, b, c] = written();
  world.engine.set_recomputable(a, true);
  make_far(a);
  EXPECT_EQ(became, 0);
}

TEST_F(Far, SomeBlocksOfAnAllocation) {
  const AllocationId a = world.allocate(2);
  world.run({world.write(a)});
  const AllocationId b = world.allocate(1);
  world.run({world.write(b)});
  far = {first_block(a), first_block(a) + 1};
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
