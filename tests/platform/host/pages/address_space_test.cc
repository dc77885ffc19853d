// Which allocation lies where: from addresses to blocks and back.
#include "platform/host/pages/address_space.h"

#include <gtest/gtest.h>

#include <optional>

namespace spillway::host {
namespace {

class AddressSpaceTest : public ::testing::Test {
 protected:
  AllocationId allocate(Bytes bytes) { return space_.allocate(bytes, 0).value(); }
  char* start_of(AllocationId id) {
    return addresses_.address_of(space_.allocation(id).first_block);
  }

  Space space_;
  AddressSpace addresses_{std::move(Reservation::make(64 * kMiB).value()), space_};
  AllocationId small_ = allocate(kPageBytes);
  AllocationId large_ = allocate(5 * kMiB + 100);  // in three blocks
};

TEST_F(AddressSpaceTest, BlocksLieOneBehindTheOther) {
  EXPECT_EQ(AddressSpace::offset_of(BlockId{3}), 6 * kMiB);
  EXPECT_EQ(addresses_.address_of(3), addresses_.base() + 6 * kMiB);
  EXPECT_EQ(addresses_.offset_of(addresses_.base() + 5), 5U);
  EXPECT_TRUE(addresses_.contains(addresses_.base()));
  EXPECT_TRUE(addresses_.contains(addresses_.base() + 64 * kMiB - 1));
  EXPECT_FALSE(addresses_.contains(addresses_.base() + 64 * kMiB));
  EXPECT_FALSE(addresses_.contains(addresses_.base() - 1));
  EXPECT_FALSE(addresses_.contains(nullptr));
}

TEST_F(AddressSpaceTest, AnAllocationIsKnownByItsStart) {
  EXPECT_EQ(addresses_.allocation_at(start_of(small_)), small_);
  EXPECT_EQ(addresses_.allocation_at(start_of(large_)), large_);
  EXPECT_EQ(addresses_.allocation_at(start_of(large_) + 1), std::nullopt);
  EXPECT_EQ(addresses_.allocation_at(start_of(large_) + kBlockBytes), std::nullopt);
  EXPECT_EQ(addresses_.allocation_at(addresses_.base() + 32 * kMiB), std::nullopt);
  EXPECT_EQ(addresses_.allocation_at(addresses_.base() + kGiB), std::nullopt);
  EXPECT_EQ(addresses_.allocation_at(nullptr), std::nullopt);
  char* const was = start_of(small_);
  const BlockId block = space_.allocation(small_).first_block;
  space_.end(small_);
  EXPECT_EQ(addresses_.allocation_at(was), std::nullopt);
  space_.release(block, 1);
  EXPECT_EQ(addresses_.allocation_at(was), std::nullopt);
}

TEST_F(AddressSpaceTest, FindsTheBlocksWithBytes) {
  const BlockId first = space_.allocation(large_).first_block;
  const auto expect = [&](Bytes from, Bytes bytes, BlockId begin, std::uint32_t count) {
    const std::optional<BlockRange> range = addresses_.blocks_with(start_of(large_) + from, bytes);
    ASSERT_TRUE(range) << from << " " << bytes;
    EXPECT_EQ(range->allocation, large_);
    EXPECT_EQ(range->first, first + begin) << from << " " << bytes;
    EXPECT_EQ(range->count, count) << from << " " << bytes;
  };
  expect(0, 1, 0, 1);
  expect(0, kBlockBytes, 0, 1);
  expect(0, kBlockBytes + 1, 0, 2);
  expect(kBlockBytes - 1, 2, 0, 2);
  expect(kBlockBytes, kBlockBytes, 1, 1);
  expect(5 * kMiB + 99, 1, 2, 1);
  expect(0, 5 * kMiB + 100, 0, 3);
}

// Bytes that are not one allocation's name nothing, whatever their number.
TEST_F(AddressSpaceTest, RefusesBytesThatAreNotOneAllocations) {
  char* const start = start_of(large_);
  EXPECT_FALSE(addresses_.blocks_with(start, 0));
  EXPECT_FALSE(addresses_.blocks_with(start, 5 * kMiB + 101));
  EXPECT_FALSE(addresses_.blocks_with(start + 5 * kMiB + 100, 1));  // in its last block
  EXPECT_FALSE(addresses_.blocks_with(start + 5 * kMiB + 200, 1));
  EXPECT_FALSE(addresses_.blocks_with(start + 1, ~Bytes{0}));
  EXPECT_FALSE(addresses_.blocks_with(start_of(small_), kBlockBytes + 1));
  EXPECT_FALSE(addresses_.blocks_with(addresses_.base() + 32 * kMiB, 1));
  EXPECT_FALSE(addresses_.blocks_with(&space_, 1));
}

TEST_F(AddressSpaceTest, FindsTheBlocksWithoutOtherBytes) {
  const BlockId first = space_.allocation(large_).first_block;
  const auto expect = [&](Bytes from, Bytes bytes, BlockId begin, std::uint32_t count) {
    const std::optional<BlockRange> range =
        addresses_.blocks_within(start_of(large_) + from, bytes);
    ASSERT_TRUE(range) << from << " " << bytes;
    EXPECT_EQ(range->count, count) << from << " " << bytes;
    if (count > 0) {
      EXPECT_EQ(range->first, first + begin) << from << " " << bytes;
    }
  };
  expect(0, 5 * kMiB + 100, 0, 3);
  expect(0, 5 * kMiB + 99, 0, 2);
  expect(1, 5 * kMiB + 99, 1, 2);
  expect(4 * kMiB, kMiB + 100, 2, 1);
  expect(4 * kMiB, kMiB, 2, 0);
  expect(0, kBlockBytes, 0, 1);
  expect(0, kBlockBytes - 1, 0, 0);
  expect(1, kBlockBytes - 1, 0, 0);
  expect(1, 2 * kBlockBytes - 1, 1, 1);
  expect(1, 1, 0, 0);
}

TEST_F(AddressSpaceTest, CountsWhatAnAllocationTakes) {
  EXPECT_EQ(addresses_.footprint_bytes(small_), kPageBytes);
  EXPECT_EQ(addresses_.footprint_bytes(large_), 5 * kMiB + kPageBytes);
  EXPECT_EQ(addresses_.footprint_bytes(allocate(4 * kMiB)), 4 * kMiB);
}

}  // namespace
}  // namespace spillway::host
