// How much of the device a heap takes, and what an allocation may be given that is larger than it
// asks for.
#include "runtime/cuda/heap_room.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr Bytes kBudget = 10 * kGiB;
constexpr Bytes kUsable = kBudget - kBudget / 128;
constexpr Bytes kUsed = kGiB;

class HeapRoomTest : public ::testing::Test {
 protected:
  // So many allocations after the one with which the most was in use.
  void allocate(int count, Bytes used_bytes = kUsed / 2) {
    for (int i = 0; i < count; ++i) {
      room.allocated(used_bytes);
    }
  }
  static HeapRoom::Has has(Bytes used_bytes, Bytes free_bytes, Bytes more_bytes = 0) {
    return {.used_bytes = used_bytes, .more_bytes = more_bytes, .free_bytes = free_bytes};
  }
  HeapRoom room;
};

TEST_F(HeapRoomTest, AQuarterBeyondTheMostInUse) {
  allocate(1, kUsed);
  const auto few = has(kUsed / 2, 0);
  EXPECT_EQ(room.most_bytes(kMiB, few, kBudget), kUsed / 4 * 5);
  EXPECT_TRUE(room.is_ample(kMiB, few, kBudget));
  EXPECT_FALSE(room.is_too_much(64 * kMiB, has(kUsed / 2, kUsed / 2), kBudget));
  // Of what is in use with the allocation, where that is more than ever.
  EXPECT_FALSE(room.is_too_much(64 * kMiB, has(kUsed, kUsed / 4), kBudget));
}

TEST_F(HeapRoomTest, AllThatIsTooMuchGoesOnceASixteenthIs) {
  allocate(1, kUsed);
  const Bytes quarter = kUsed / 2 + kUsed / 4;  // beside the half that is in use
  EXPECT_FALSE(room.is_too_much(kUsed / 16, has(kUsed / 2, quarter), kBudget));
  EXPECT_TRUE(room.is_too_much(kUsed / 16, has(kUsed / 2, quarter + kMiB), kBudget));
  EXPECT_TRUE(room.is_too_much(kUsed / 16, has(kUsed / 2, quarter - kUsed / 16 + 1), kBudget));
  EXPECT_FALSE(room.is_too_much(kUsed / 16, has(kUsed / 2, quarter - kUsed / 16), kBudget));
  EXPECT_FALSE(room.is_too_much(kUsed / 16, has(kUsed / 2, quarter), kBudget));
}

TEST_F(HeapRoomTest, AllOfABudgetThatHasNoQuarterBeyond) {
  allocate(1, kBudget / 8 * 7);
  const auto much = has(kBudget / 8 * 7, 0);
  EXPECT_EQ(room.most_bytes(kMiB, much, kBudget), kUsable);
  EXPECT_FALSE(room.is_ample(kMiB, much, kBudget));
  // With more in use than there is something has to move, and the platform decides what.
  EXPECT_FALSE(room.is_too_much(64 * kMiB, has(kBudget, kBudget), kBudget));
}

TEST_F(HeapRoomTest, UpToTwiceAsLargeAndFourTimesWhereThereIsNoRoom) {
  constexpr Bytes kSize = 20 * kMiB;
  allocate(1, kUsed);
  // While it grows by a quarter only: what seems to come and go may stay.
  EXPECT_EQ(room.largest_for(kSize, has(kUsed / 2, kUsed), kBudget), kSize / 4 * 5);
  allocate(1);
  EXPECT_EQ(room.largest_for(kSize, has(kUsed / 2, kUsed / 4), kBudget), 2 * kSize);
  EXPECT_EQ(room.largest_for(kSize, has(kUsed / 2, kUsed), kBudget), 4 * kSize);
  // Small ones share frames.
  EXPECT_EQ(room.largest_for(kMiB, has(kUsed / 2, kUsed), kBudget), kMiB);
}

// Where the budget is not ample nothing is, until there have been twice as many allocations.
TEST_F(HeapRoomTest, NothingLargerWhereItMayNeedAllOfTheBudget) {
  constexpr Bytes kSize = 20 * kMiB;
  const auto much = has(kBudget / 2, kBudget / 2);
  allocate(1, kBudget / 8 * 7);
  EXPECT_EQ(room.largest_for(kSize, much, kBudget), kSize);
  allocate(1);
  EXPECT_TRUE(room.may_grow());
  EXPECT_EQ(room.largest_for(kSize, much, kBudget), 2 * kSize);
  allocate(2);
  EXPECT_FALSE(room.may_grow());
}

// What is given beyond what was asked for comes out of the quarter.
TEST_F(HeapRoomTest, NoMoreThanThereIsRoomFor) {
  constexpr Bytes kSize = 20 * kMiB;
  allocate(1, kUsed);
  allocate(1);
  const Bytes quarter = kUsed / 4;
  EXPECT_EQ(room.largest_for(kSize, has(kUsed / 2, kUsed, quarter - 4 * kMiB), kBudget),
            kSize + 4 * kMiB);
  EXPECT_EQ(room.largest_for(kSize, has(kUsed / 2, kUsed, quarter), kBudget), kSize);
}

TEST_F(HeapRoomTest, MoreWhereGivingUpDoesNotEnd) {
  allocate(1, kUsed);
  const auto few = has(kUsed / 2, 0);
  room.gave_up(kUsed, true);
  EXPECT_EQ(room.most_bytes(kMiB, few, kBudget), kUsed / 4 * 5);
  room.gave_up(kMiB, true);
  EXPECT_EQ(room.most_bytes(kMiB, few, kBudget), kUsed / 16 * 21);
  for (int i = 0; i < 1000; ++i) {
    room.gave_up(kUsed, true);
  }
  EXPECT_EQ(room.most_bytes(kMiB, few, kBudget), 2 * kUsed);
  // A program that has become much larger begins anew.
  allocate(1, 2 * kUsed);
  EXPECT_EQ(room.most_bytes(kMiB, few, kBudget), kUsed / 2 * 5);
}

TEST_F(HeapRoomTest, NothingIsAmpleForMoreThanTheBudget) {
  for (const Bytes size : {kBudget + 1, Bytes{1} << 62U, Bytes{1} << 63U, ~Bytes{0}}) {
    EXPECT_FALSE(room.is_ample(size, has(kUsed, 0), kBudget));
    EXPECT_FALSE(room.is_too_much(size, has(kUsed, kUsed), kBudget));
  }
}

// There calls would never end.
TEST_F(HeapRoomTest, WhereThereIsLittleGivingUpEnds) {
  allocate(1, kBudget / 8 * 7);
  const auto much = has(kBudget / 8 * 6, kBudget / 4);
  EXPECT_TRUE(room.is_too_much(64 * kMiB, much, kBudget));
  room.gave_up(2 * kBudget, false);
  EXPECT_FALSE(room.is_too_much(64 * kMiB, much, kBudget));
}

}  // namespace
}  // namespace spillway
