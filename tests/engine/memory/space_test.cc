// The address space: cutting, packing, numbers that come back.
#include "engine/memory/space.h"

#include <gtest/gtest.h>

#include "engine/memory/page_queues.h"

namespace spillway {
namespace {

const Allocation& allocate(Space& space, Bytes bytes) {
  const Result<AllocationId> id = space.allocate(bytes, 7);
  EXPECT_TRUE(id.has_value());
  return space.allocation(*id);
}

// Ends the allocation and gives its numbers back, in the order given.
void release(Space& space, const Allocation& allocation, const std::vector<std::uint32_t>& order) {
  for (const std::uint32_t index : order) {
    space.release(allocation.first_block + index, 1);
  }
}

TEST(Space, CutsTheLastBlockToSize) {
  Space space;
  const Allocation allocation = allocate(space, 2 * kBlockBytes + 5000);
  EXPECT_EQ(allocation.block_count, 3U);
  EXPECT_EQ(allocation.tag, 7U);
  EXPECT_EQ(space.block(allocation.first_block).bytes, kBlockBytes);
  EXPECT_EQ(space.block(allocation.first_block + 1).bytes, kBlockBytes);
  EXPECT_EQ(space.block(allocation.first_block + 2).bytes, 2 * kPageBytes);
  EXPECT_EQ(allocate(space, kBlockBytes).block_count, 1U);
  EXPECT_EQ(allocate(space, kPageBytes).packed, false);
}

TEST(Space, RoundsBlocksUpToTheFrames) {
  Space space(64 * kKiB);
  const Allocation allocation = allocate(space, kBlockBytes + 1);
  EXPECT_EQ(space.block(allocation.first_block).bytes, kBlockBytes);
  EXPECT_EQ(space.block(allocation.first_block + 1).bytes, 64 * kKiB);
  EXPECT_EQ(space.block(allocate(space, 100).first_block).bytes, 64 * kKiB);
}

// G10 section 4.5: tensors smaller than a page share one.
TEST(Space, PacksWhatIsSmallerThanAPage) {
  Space space;
  const Allocation first = allocate(space, 1000);   // takes 1024 of the page
  const Allocation second = allocate(space, 2048);  // up to 3072
  const Allocation third = allocate(space, 1024);   // up to 4096
  const Allocation fourth = allocate(space, 1);     // the page is full
  EXPECT_TRUE(first.packed);
  EXPECT_EQ(second.first_block, first.first_block);
  EXPECT_EQ(third.first_block, first.first_block);
  EXPECT_NE(fourth.first_block, first.first_block);
  EXPECT_EQ(space.block(first.first_block).tenants, 3U);
  EXPECT_EQ(space.block(first.first_block).bytes, kPageBytes);
  EXPECT_EQ(space.block(fourth.first_block).tenants, 1U);
}

TEST(Space, APageThatWasReleasedTakesNoMoreTenants) {
  Space space;
  const AllocationId id = *space.allocate(100, 0);
  const BlockId page = space.allocation(id).first_block;
  space.end(id);
  EXPECT_FALSE(space.is_live(id));
  space.release(page, 1);
  EXPECT_EQ(space.block(page).bytes, 0U);
  const Allocation next = allocate(space, kBlockBytes);
  EXPECT_EQ(next.first_block, page);
  EXPECT_NE(allocate(space, 100).first_block, page);
}

TEST(Space, ReusesNumbersInWhateverOrderTheyComeBack) {
  for (const std::vector<std::uint32_t>& order :
       {std::vector<std::uint32_t>{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 3, 0, 2}}) {
    Space space;
    const AllocationId id = *space.allocate(4 * kBlockBytes, 0);
    const Allocation gone = space.allocation(id);
    const Allocation stays = allocate(space, kBlockBytes);
    space.end(id);
    EXPECT_EQ(allocate(space, kBlockBytes).first_block, stays.first_block + 1)
        << "a number was given out before it was released";
    release(space, gone, order);
    EXPECT_EQ(allocate(space, 3 * kBlockBytes).first_block, gone.first_block);
    EXPECT_EQ(allocate(space, kBlockBytes).first_block, gone.first_block + 3);
    EXPECT_EQ(space.block_slots(), 6U);
  }
}

TEST(Space, RefusesSizesThatMakeNoSense) {
  Space space;
  for (const Bytes bytes : {Bytes{0}, (Bytes{1} << 50U) + 1, ~Bytes{0}}) {
    const Result<AllocationId> id = space.allocate(bytes, 0);
    ASSERT_FALSE(id.has_value()) << bytes;
    EXPECT_EQ(id.error().code, ErrorCode::kInvalidInput);
  }
  EXPECT_EQ(space.block_slots(), 0U);
  EXPECT_EQ(space.allocation_slots(), 0U);
}

TEST(PageQueues, KeepTheOrderInWhichBlocksCame) {
  Space space;
  const BlockId first = allocate(space, 3 * kBlockBytes + kPageBytes).first_block;
  LaunchTable launches;
  PendingUses claims(space, launches);
  PageQueues queues(space, claims);
  EXPECT_EQ(queues.oldest(PageQueue::kUsed), kNoBlock);
  for (BlockId id = first; id < first + 4; ++id) {
    queues.push(PageQueue::kUsed, id);
  }
  EXPECT_EQ(queues.bytes(PageQueue::kUsed), 3 * kBlockBytes + kPageBytes);
  queues.push(PageQueue::kUsed, first);           // 1 2 3 0: again, so newest
  queues.remove(first + 2);                       // 1 3 0: from the middle
  queues.push(PageQueue::kDiscarded, first + 1);  // 3 0: from the oldest end
  queues.remove(first + 2);                       // in no queue: nothing happens
  EXPECT_EQ(queues.oldest(PageQueue::kUsed), first + 3);
  EXPECT_EQ(queues.newer(first + 3), first);
  EXPECT_EQ(queues.newer(first), kNoBlock);
  EXPECT_EQ(queues.size(PageQueue::kUsed), 2U);
  EXPECT_EQ(queues.bytes(PageQueue::kUsed), kBlockBytes + kPageBytes);
  EXPECT_EQ(queues.oldest(PageQueue::kDiscarded), first + 1);
  EXPECT_EQ(queues.newer(first + 1), kNoBlock);
  EXPECT_EQ(queues.size(PageQueue::kUnused), 0U);
}

}  // namespace
}  // namespace spillway
