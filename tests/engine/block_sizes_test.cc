// Blocks of any size in one space, and frames that allocations smaller than a frame share.
#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

EngineOptions with_frames(Bytes frame_bytes, std::uint64_t device_blocks) {
  EngineOptions options = one_at_a_time(device_blocks, 64, 0);
  options.device_frame_bytes = frame_bytes;
  return options;
}

TEST(BlockSizes, AreThePlatformsChoiceForEachAllocation) {
  EngineOptions options = one_at_a_time(0, 0, 0);
  options.device_capacity_bytes = options.host_capacity_bytes = 4 * kGiB;
  World world(options);
  const AllocationId small = *world.engine.allocate(5 * kMiB, 0, 2 * kMiB);
  const AllocationId middle = *world.engine.allocate(100 * kMiB, 0, 32 * kMiB);
  const AllocationId large = *world.engine.allocate(3 * kGiB, 0, kGiB);
  const auto sizes = [&](AllocationId id) {
    std::vector<Bytes> bytes;
    for (std::uint32_t i = 0; i < world.engine.space().allocation(id).block_count; ++i) {
      bytes.push_back(world.block(id, i).bytes);
    }
    return bytes;
  };
  EXPECT_THAT(sizes(small), ElementsAre(2 * kMiB, 2 * kMiB, kMiB));
  EXPECT_THAT(sizes(middle), ElementsAre(32 * kMiB, 32 * kMiB, 32 * kMiB, 4 * kMiB));
  EXPECT_THAT(sizes(large), ElementsAre(kGiB, kGiB, kGiB));
  world.run({world.write(small), world.write(middle), world.write(large)});
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 3 * kGiB + 105 * kMiB);
  // Of 919 MiB that are free a block of a GiB needs one large victim, or all of the small ones.
  const AllocationId another = *world.engine.allocate(kGiB, 0, kGiB);
  world.run({world.write(another)});
  EXPECT_TRUE(world.block(another).mapped);
  EXPECT_LE(world.engine.used_bytes(Tier::kDevice), 4 * kGiB);
  world.run({world.read(small), world.read(middle)});
  for (const AllocationId id : {small, middle, large, another}) {
    world.free(id);
  }
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice) + world.engine.used_bytes(Tier::kHost), 0U);
}

// As many sizes as a device has that gives out 2 to 128 MiB.
TEST(BlockSizes, RoomComesFromTheSizeOfWhichMostIsDead) {
  constexpr std::uint64_t kSizes = 60;
  EngineOptions options = with_frames(kBlockBytes, kSizes * (kSizes + 1) / 2 + 2 * 62);
  options.frames_have_sizes = true;
  World world(options);
  const auto dead = [&](std::uint64_t frames) {
    const Bytes bytes = frames * kBlockBytes;
    const AllocationId id = *world.engine.allocate(bytes, 0, bytes);
    world.run({world.write(id)});
    world.engine.discard(id, DiscardMode::kEager);
    return id;
  };
  std::vector<AllocationId> one_of_each;
  for (std::uint64_t frames = 1; frames <= kSizes; ++frames) {
    one_of_each.push_back(dead(frames));
  }
  const std::array most{dead(62), dead(62)};
  const Bytes bytes = 61 * kBlockBytes;
  world.run({world.write(*world.engine.allocate(bytes, 0, bytes))});
  EXPECT_FALSE(world.block(most[0]).frames.has(Tier::kDevice));
  EXPECT_TRUE(world.block(most[1]).frames.has(Tier::kDevice));
  for (const AllocationId id : one_of_each) {
    EXPECT_TRUE(world.block(id).frames.has(Tier::kDevice));
  }
}

// A device on which something alive has had to leave. Sizes in blocks.
class SizesUnderPressure : public testing::Test {
 protected:
  static constexpr std::uint64_t kDevice = 128;

  SizesUnderPressure() {
    const std::array filled{made(64), made(64), made(64)};
    for (const AllocationId id : filled) {
      world.free(id);
    }
  }
  AllocationId made(std::uint64_t size) {
    const Bytes bytes = size * kBlockBytes;
    const AllocationId id = *world.engine.allocate(bytes, 0, bytes);
    world.run({world.write(id)});
    return id;
  }
  AllocationId dead(std::uint64_t size) {
    const AllocationId id = made(size);
    world.discard(id);
    return id;
  }
  std::vector<AllocationId> dead_at_once(std::size_t count, std::uint64_t size) {
    std::vector<AllocationId> ids;
    while (ids.size() < count) {
      ids.push_back(made(size));
    }
    for (const AllocationId id : ids) {
      world.discard(id);
    }
    return ids;
  }
  // One that leaves without a copy, when it is asked for.
  AllocationId clean(std::uint64_t size) {
    const AllocationId id = made(size);
    const BlockId block = world.engine.space().allocation(id).first_block;
    world.policy.at_launch_end = [block](const Launch&, Control& control) {
      control.copy_down(block, Tier::kHost);
    };
    world.run({});
    world.policy.at_launch_end = nullptr;
    world.finish_all();
    world.policy.clean_victim = block;
    return id;
  }
  // So many blocks stay free.
  void fill_but(std::uint64_t free) {
    made(world.engine.free_bytes(Tier::kDevice) / kBlockBytes - free);
  }
  [[nodiscard]] bool has_frame(AllocationId id) const {
    return world.block(id).frames.has(Tier::kDevice);
  }
  [[nodiscard]] std::ptrdiff_t how_many_have_frames(const std::vector<AllocationId>& ids) const {
    return std::count_if(ids.begin(), ids.end(), [this](AllocationId id) { return has_frame(id); });
  }
  static EngineOptions options() {
    EngineOptions options = with_frames(kBlockBytes, kDevice);
    options.host_capacity_bytes = 4 * kDevice * kBlockBytes;
    options.clean_copies = CleanCopies::kAll;
    options.frames_have_sizes = true;
    return options;
  }

  World world{options()};
};

// A frame of 4 is free, which the next of that size has as it is.
TEST_F(SizesUnderPressure, AFreeFrameIsKeptForItsSizeWhereOneOfTheRightSizeIsDead) {
  const AllocationId of_three = dead(3);
  const AllocationId leaves = made(4);
  fill_but(0);
  world.free(leaves);
  made(3);
  EXPECT_FALSE(has_frame(of_three));
  EXPECT_EQ(world.engine.free_bytes(Tier::kDevice), 4 * kBlockBytes);
}

TEST_F(SizesUnderPressure, AFreeFrameOfTheRightSizeIsTaken) {
  const AllocationId of_three = dead(3);
  const AllocationId leaves = made(3);
  fill_but(0);
  world.free(leaves);
  made(3);
  EXPECT_TRUE(has_frame(of_three));
}

TEST_F(SizesUnderPressure, ALittleThatIsDeadStaysWhereSomethingLeavesWithoutACopy) {
  const AllocationId of_three = dead(3);
  const AllocationId copied = clean(5);
  fill_but(0);
  made(4);
  EXPECT_TRUE(has_frame(of_three));
  EXPECT_FALSE(has_frame(copied));
  world.run({world.read(copied)});  // as it was
}

// A policy that says of something that it leaves at once is not believed.
TEST_F(SizesUnderPressure, NothingIsCopiedForIt) {
  const AllocationId of_three = dead(3);
  const AllocationId dirty = made(5);
  fill_but(0);
  world.policy.clean_victim = world.engine.space().allocation(dirty).first_block;
  made(3 - 1);
  EXPECT_FALSE(has_frame(of_three));
  EXPECT_TRUE(has_frame(dirty));
}

TEST_F(SizesUnderPressure, NotMoreThanALittle) {
  const AllocationId of_three = dead(3);
  const AllocationId of_four = dead(4);
  const AllocationId copied = clean(5);
  fill_but(0);
  made(2);
  EXPECT_TRUE(has_frame(of_three));
  EXPECT_FALSE(has_frame(of_four));
  EXPECT_TRUE(has_frame(copied));
}

TEST_F(SizesUnderPressure, NotWhereItIsOfTheRightSize) {
  const AllocationId of_four = dead(4);
  const AllocationId copied = clean(5);
  fill_but(0);
  made(4);
  EXPECT_FALSE(has_frame(of_four));
  EXPECT_TRUE(has_frame(copied));
}

// It goes with one call of the driver, and is made again with one.
TEST_F(SizesUnderPressure, ALargeFrameBecomesOthersRatherThanSeveralSmallOnes) {
  const std::vector<AllocationId> large = dead_at_once(2, 30);
  const std::vector<AllocationId> small = dead_at_once(32, 2);
  fill_but(0);
  made(10);
  EXPECT_FALSE(has_frame(large[0]));
  EXPECT_TRUE(has_frame(large[1]));
  EXPECT_EQ(how_many_have_frames(small), 32);
}

TEST_F(SizesUnderPressure, UnlessLittleOfItsSizeIsDead) {
  const AllocationId large = dead(30);
  const std::vector<AllocationId> small = dead_at_once(47, 2);
  fill_but(0);
  made(10);
  EXPECT_TRUE(has_frame(large));
  EXPECT_EQ(how_many_have_frames(small), 47 - 5);
}

TEST_F(SizesUnderPressure, WhereLittleIsDeadOfAnySizeALargeFrameGoesToo) {
  const AllocationId large = dead(30);
  const std::vector<AllocationId> small = dead_at_once(20, 2);
  fill_but(0);
  made(10);
  EXPECT_FALSE(has_frame(large));
  EXPECT_EQ(how_many_have_frames(small), 20);
}

// As long as nothing alive has had to leave.
TEST(BlockSizes, ALargeFrameStaysWhereMoreOfSmallOnesIsDead) {
  EngineOptions options = with_frames(kBlockBytes, 60 + 80 + 4);
  options.frames_have_sizes = true;
  World world(options);
  std::vector<AllocationId> ids;
  const auto made = [&](std::uint64_t frames) {
    const Bytes bytes = frames * kBlockBytes;
    ids.push_back(*world.engine.allocate(bytes, 0, bytes));
    world.run({world.write(ids.back())});
  };
  made(30);
  made(30);
  for (int small = 0; small < 40; ++small) {
    made(2);
  }
  for (const AllocationId id : ids) {
    world.engine.discard(id, DiscardMode::kEager);
  }
  made(10);
  EXPECT_TRUE(world.block(ids[0]).frames.has(Tier::kDevice));
  EXPECT_TRUE(world.block(ids[1]).frames.has(Tier::kDevice));
  EXPECT_FALSE(world.block(ids[2]).frames.has(Tier::kDevice));
}

TEST(BlockSizes, ThatAreNoMultipleOfTheFrameAreRefused) {
  World world(with_frames(64 * kKiB, 8));
  for (const Bytes bytes : {64 * kKiB + 4096, kGiB + 64 * kKiB, 2 * kGiB, 100'000 * kKiB + 1}) {
    const Result<AllocationId> id = world.engine.allocate(kGiB, 0, bytes);
    ASSERT_FALSE(id.has_value()) << bytes;
    EXPECT_EQ(id.error().code, ErrorCode::kInvalidInput);
  }
  EXPECT_FALSE(world.engine.allocate(0, 0).has_value());
  EXPECT_FALSE(world.engine.allocate((Bytes{1} << 50U) + 1, 0).has_value());
  EXPECT_EQ(world.engine.space().block_slots(), 0U);
  // A block smaller than a frame is a frame.
  const AllocationId id = *world.engine.allocate(kMiB, 0, 4096);
  EXPECT_EQ(world.engine.space().allocation(id).block_count, 16U);
}

// 2^38 blocks: their number does not fit where it is kept.
TEST(BlockSizes, MoreBlocksThanHaveNumbersAreRefused) {
  World world(one_at_a_time(8, 8, 0));
  for (const Bytes bytes : {Bytes{1} << 50U, Bytes{1} << 44U, (Bytes{1} << 43U) + 1}) {
    const Result<AllocationId> id = world.engine.allocate(bytes, 0, 4096);
    ASSERT_FALSE(id.has_value());
    EXPECT_EQ(id.error().code, ErrorCode::kInvalidInput);
  }
  EXPECT_EQ(world.engine.space().allocation_slots(), 0U);
}

class SharedFrames : public testing::TestWithParam<Bytes> {};

TEST_P(SharedFrames, HoldWhatIsSmallerSideBySide) {
  const Bytes frame = GetParam();
  World world(with_frames(frame, 8));
  const AllocationId a = world.allocate_bytes(frame / 2);
  const AllocationId b = world.allocate_bytes(frame / 4 + 1);
  const AllocationId c = world.allocate_bytes(1);
  const AllocationId whole = world.allocate_bytes(frame);
  const Space& space = world.engine.space();
  EXPECT_EQ(space.allocation(a).first_block, space.allocation(b).first_block);
  EXPECT_EQ(space.allocation(a).first_block, space.allocation(c).first_block);
  EXPECT_NE(space.allocation(a).first_block, space.allocation(whole).first_block);
  EXPECT_EQ(world.block(a).tenants, 3U);
  world.run({world.write(a), world.write(b), world.write(c)});
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), frame);
  // The room that one leaves goes to who fits best, and its neighbours stay as they are.
  const Bytes offset = space.allocation(b).offset_bytes;
  world.free(b);
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
  EXPECT_TRUE(world.block(a).mapped);
  const AllocationId d = world.allocate_bytes(frame / 4);
  EXPECT_EQ(space.allocation(d).offset_bytes, offset);
  EXPECT_EQ(space.allocation(d).first_block, space.allocation(a).first_block);
  world.forget();
  world.run({world.overwrite(d)});  // overwrites its own place only
  EXPECT_THAT(world.calls(), ElementsAre("ready 2"));
  world.free(a);
  world.free(c);
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), frame);
  world.free(d);
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 0U);
}

// The launch overwrites all of its own memory, which is not all of the block: the neighbours come
// with it.
TEST_P(SharedFrames, KeepTheirNeighboursContents) {
  World world(with_frames(GetParam(), 2));
  const AllocationId a = world.allocate_bytes(100);
  const AllocationId b = world.allocate_bytes(100);
  const AllocationId big = world.allocate(2);
  world.run({world.write(a), world.write(b)});
  world.run({world.write(big)});  // they have gone down
  EXPECT_FALSE(world.block(a).mapped);
  world.forget();
  world.begin({world.overwrite(a)});
  world.finish_all();
  EXPECT_THAT(world.calls(), testing::Contains(testing::StartsWith("fault host>device")));
  world.end(3);
  world.free(a);
  EXPECT_EQ(world.block(b).contents, Contents::kLive);
}

// What is said of a block names the last one that came into it, who may be gone.
TEST_P(SharedFrames, AreSpokenOfWhenTheLastToComeHasGone) {
  World world(with_frames(GetParam(), 4));
  const AllocationId a = world.allocate_bytes(100);
  const AllocationId b = world.allocate_bytes(100);
  world.run({world.write(a)});
  world.begin({world.read(b)}, 0);
  world.free(b);  // waits for the launch
  world.pre_evict(a);
  world.prefetch(a);
  world.end(2);
  EXPECT_THAT(world.mechanism.gone, ElementsAre(b));
  // The number goes to another, of whom something waits to be said.
  const AllocationId other = world.allocate(1);
  EXPECT_EQ(other, b);
  world.begin({world.write(other)}, 0);
  world.discard(other);
  world.pre_evict(a);
  EXPECT_EQ(world.mechanism.under_way.size(), 1U);
  world.finish_all();
  world.prefetch(a);
  world.engine.discard_blocks(world.engine.space().allocation(a).first_block, 1,
                              DiscardMode::kEager);  // others may be in it
  world.check();
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
  world.end(3);
}

TEST_P(SharedFrames, RandomTenants) {
  const Bytes frame = GetParam();
  World world(with_frames(frame, 8));
  Rng rng(9);
  std::vector<AllocationId> live;
  for (int step = 0; step < 600; ++step) {
    if (live.size() < 40 && rng.chance(0.55)) {
      live.push_back(world.allocate_bytes(1 + rng.below(rng.chance(0.3) ? frame - 1 : 1000)));
      world.run({world.write(live.back())});
    } else if (!live.empty()) {
      std::swap(live[rng.below(live.size())], live.back());
      if (rng.chance(0.5)) {
        world.begin({world.read(live.back())}, 0);
        world.free(live.back());
        world.finish_all();
        world.end(world.launches);
      } else {
        world.free(live.back());
      }
      live.pop_back();
    }
    for (const AllocationId id : live) {
      ASSERT_EQ(world.block(id).contents, Contents::kLive) << "step " << step;
    }
  }
  for (const AllocationId id : live) {
    world.free(id);
  }
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice) + world.engine.used_bytes(Tier::kHost), 0U);
}

INSTANTIATE_TEST_SUITE_P(Of, SharedFrames, testing::Values(4 * kKiB, 64 * kKiB, 2 * kMiB),
                         [](const auto& tested) {
                           return fmt::format("{}KiB", tested.param / kKiB);
                         });

}  // namespace
}  // namespace spillway
