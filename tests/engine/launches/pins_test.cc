// What admitted launches hold, what the next one lacks, and what a launch's operands are together.
#include "engine/launches/pins.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

constexpr Bytes kAlways = 0;  // sorts and counts each block once
constexpr Bytes kNever = std::numeric_limits<Bytes>::max();

class PinsTest : public testing::Test {
 protected:
  AllocationId allocate(Bytes bytes, Bytes block_bytes = kBlockBytes) {
    return *space.allocate(bytes, 0, block_bytes);
  }
  [[nodiscard]] Access part(AllocationId id, std::uint32_t from, std::uint32_t count) const {
    return {id, space.allocation(id).first_block + from, count, AccessMode::kRead};
  }
  [[nodiscard]] Access all(AllocationId id) const {
    return part(id, 0, space.allocation(id).block_count);
  }

  Space space{64 * kKiB};
  LaunchTable launches;
};

TEST_F(PinsTest, ABlockCountsOnceHoweverOftenItIsPinned) {
  Pins pins(space);
  const AllocationId a = allocate(kBlockBytes);
  const BlockId block = space.allocation(a).first_block;
  EXPECT_TRUE(pins.pin(block));
  EXPECT_FALSE(pins.pin(block));
  EXPECT_EQ(pins.bytes(), kBlockBytes);
  EXPECT_FALSE(pins.unpin(block));
  EXPECT_EQ(pins.bytes(), kBlockBytes);
  EXPECT_TRUE(pins.unpin(block));
  EXPECT_EQ(pins.bytes(), 0U);
}

TEST_F(PinsTest, KnowsAtOnceWhatTheNextInLineLacks) {
  Pins pins(space);
  const AllocationId a = allocate(2 * kBlockBytes);
  const AllocationId b = allocate(kBlockBytes / 2);
  pins.pin(space.allocation(a).first_block);
  // a is named twice and counts once.
  const std::uint32_t slot = launches.take({.accesses = {all(a), all(b), all(a)}}, 0);
  pins.hold_for(slot, launches);
  EXPECT_EQ(pins.held_for(), slot);
  EXPECT_EQ(pins.more_bytes(), kBlockBytes + kBlockBytes / 2);
  pins.pin(space.allocation(b).first_block);
  EXPECT_EQ(pins.more_bytes(), kBlockBytes);
  pins.unpin(space.allocation(a).first_block);
  EXPECT_EQ(pins.more_bytes(), 2 * kBlockBytes);
  EXPECT_TRUE(pins.check().has_value());
  const std::uint32_t other = launches.take({.accesses = {all(b)}}, 0);
  pins.hold_for(other, launches);  // another comes first: the marks of the former go
  EXPECT_EQ(pins.more_bytes(), 0U);
  EXPECT_TRUE(pins.check().has_value());
  pins.hold_for(kNoIndex, launches);
  pins.unpin(space.allocation(b).first_block);
  EXPECT_EQ(pins.more_bytes(), 0U);
  EXPECT_TRUE(pins.check().has_value());
}

TEST_F(PinsTest, OperandsThatOverlapCountOnce) {
  const AllocationId a = allocate(10 * kBlockBytes + 1);  // the last block is one frame
  const Launch launch{.accesses = {part(a, 3, 4), part(a, 0, 5), all(a), part(a, 10, 1)}};
  const Bytes whole = 10 * kBlockBytes + 64 * kKiB;
  EXPECT_EQ(bytes_of(launch, space, kAlways), whole);
  EXPECT_EQ(bytes_of(launch, space, whole), whole);
  EXPECT_EQ(unpinned_bytes_of(launch, space), whole);
  EXPECT_EQ(bytes_of({}, space, kAlways), 0U);
  EXPECT_EQ(bytes_of({.accesses = {part(a, 4, 0)}}, space, kAlways), 0U);
  // Where even the sum over operands is enough, nothing more exact is needed.
  EXPECT_GE(bytes_of(launch, space, kNever), whole);
}

TEST_F(PinsTest, NeighboursInOneFrameAreTheFrameOnce) {
  const AllocationId a = allocate(100);
  const AllocationId b = allocate(200);
  const Launch launch{.accesses = {all(a), all(b), all(a)}};
  EXPECT_EQ(bytes_of(launch, space, kAlways), 64 * kKiB);
  EXPECT_EQ(unpinned_bytes_of(launch, space), 64 * kKiB);
}

TEST_F(PinsTest, RandomOperandsAgainstASetOfBlocks) {
  Pins pins(space);
  std::vector<AllocationId> ids;
  Rng rng(11);
  for (int i = 0; i < 12; ++i) {
    const Bytes block_bytes = (i % 3 == 0 ? 1 : 32) * 64 * kKiB;
    ids.push_back(allocate(1 + rng.below(6 * block_bytes), block_bytes));
  }
  for (int round = 0; round < 2000; ++round) {
    Launch launch;
    std::set<BlockId> blocks;
    for (auto operands = rng.below(8); operands > 0; --operands) {
      const AllocationId id = ids[rng.below(ids.size())];
      const std::uint32_t count = space.allocation(id).block_count;
      const auto from = static_cast<std::uint32_t>(rng.below(count));
      launch.accesses.push_back(
          part(id, from, static_cast<std::uint32_t>(rng.below(count - from + 1))));
      for (std::uint32_t i = 0; i < launch.accesses.back().block_count; ++i) {
        blocks.insert(launch.accesses.back().first_block + i);
      }
    }
    Bytes bytes = 0;
    Bytes unpinned = 0;
    for (const BlockId block : blocks) {
      bytes += space.block(block).bytes;
      unpinned += space.block(block).pins == 0 ? space.block(block).bytes : 0;
    }
    ASSERT_EQ(bytes_of(launch, space, kAlways), bytes) << "round " << round;
    ASSERT_EQ(unpinned_bytes_of(launch, space), unpinned) << "round " << round;
    const std::uint32_t slot = launches.take(launch, bytes);
    pins.hold_for(slot, launches);
    ASSERT_EQ(pins.more_bytes(), unpinned);
    for (const BlockId block : blocks) {
      if (space.block(block).pins > 0 && rng.chance(0.5)) {
        pins.unpin(block);
      } else {
        pins.pin(block);
      }
    }
    ASSERT_EQ(pins.more_bytes(), unpinned_bytes_of(launch, space));
    ASSERT_TRUE(pins.check().has_value());
  }
}

}  // namespace
}  // namespace spillway
