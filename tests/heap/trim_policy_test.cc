// How much of the device a heap takes, and what an allocation may be given that is larger than it
// asks for.
#include "heap/trim_policy.h"

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
  static TrimPolicy::Has has(Bytes used_bytes, Bytes free_bytes, Bytes more_bytes = 0) {
    return {.used_bytes = used_bytes, .more_bytes = more_bytes, .free_bytes = free_bytes};
  }
  TrimPolicy room;
};

TEST_F(HeapRoomTest, AQuarterBeyondTheMostInUse) {
  allocate(1, kUsed);
  const auto few = has(kUsed / 2, 0);
  EXPECT_EQ(room.room_bytes(kMiB, few, kBudget), kUsed / 4 * 5);
  EXPECT_TRUE(room.fits(kMiB, few, kBudget));
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
  EXPECT_TRUE(room.fits(kMiB, much, kBudget));
  EXPECT_EQ(room.room_bytes(kMiB, much, kBudget), kUsable);
  // And no sixteenth beyond it.
  EXPECT_FALSE(room.is_too_much(
      64 * kMiB, has(kBudget / 8 * 7, kUsable - kBudget / 8 * 7 - kGiB / 16), kBudget));
  EXPECT_TRUE(room.is_too_much(
      65 * kMiB, has(kBudget / 8 * 7, kUsable - kBudget / 8 * 7 - kGiB / 16), kBudget));
}

// Something has to move, and the platform decides what.
TEST_F(HeapRoomTest, NothingIsGivenUpUnderPressure) {
  allocate(1, kBudget);
  allocate(1);
  const auto all = has(kBudget, kBudget);
  EXPECT_FALSE(room.fits(64 * kMiB, all, kBudget));
  EXPECT_FALSE(room.is_too_much(64 * kMiB, all, kBudget));
  EXPECT_EQ(room.largest_for(64 * kMiB, all, kBudget), 64 * kMiB);
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

// Until there have been four times as many allocations as at the highest use; a program that has
// run for long does not grow for as long again.
TEST_F(HeapRoomTest, WhenItIsKnownWhatStays) {
  constexpr Bytes kSize = 20 * kMiB;
  allocate(1, kUsed);
  EXPECT_TRUE(room.may_grow());
  allocate(2);
  EXPECT_TRUE(room.may_grow());
  allocate(1);
  EXPECT_FALSE(room.may_grow());
  allocate(100'000);
  allocate(1, kUsed + kMiB);
  allocate(4095);
  EXPECT_EQ(room.largest_for(kSize, has(kUsed / 2, kUsed), kBudget), kSize / 4 * 5);
  EXPECT_TRUE(room.may_grow());
  allocate(1);
  EXPECT_EQ(room.largest_for(kSize, has(kUsed / 2, kUsed), kBudget), 4 * kSize);
  allocate(2 * 4096);
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
  room.gave_up(kUsed);
  EXPECT_EQ(room.room_bytes(kMiB, few, kBudget), kUsed / 4 * 5);
  room.gave_up(kMiB);
  EXPECT_EQ(room.room_bytes(kMiB, few, kBudget), kUsed / 16 * 21);
  for (int i = 0; i < 1000; ++i) {
    room.gave_up(kUsed);
  }
  EXPECT_EQ(room.room_bytes(kMiB, few, kBudget), 2 * kUsed);
  // A program that has become much larger begins anew.
  allocate(1, 2 * kUsed);
  EXPECT_EQ(room.room_bytes(kMiB, few, kBudget), kUsed / 2 * 5);
}

// Its frames go from what is dead to what is new, as the platform has it.
TEST_F(HeapRoomTest, WhereThereIsLittleGivingUpEndsUnlessItBringsRest) {
  constexpr Bytes kMuch = kBudget / 8 * 7;
  allocate(1, kMuch);
  const auto full = has(kMuch, kBudget / 8);
  room.gave_up(4 * kBudget);  // while there was room
  EXPECT_TRUE(room.is_too_much(64 * kMiB, full, kBudget));
  for (int i = 0; i < 2; ++i) {
    room.gave_up(kBudget);
    EXPECT_TRUE(room.is_too_much(64 * kMiB, full, kBudget));
  }
  room.is_at_rest();
  room.gave_up(2 * kBudget);
  EXPECT_TRUE(room.is_too_much(64 * kMiB, full, kBudget));
  room.gave_up(kMiB);
  EXPECT_FALSE(room.is_too_much(64 * kMiB, full, kBudget));
  // Not where there is room.
  EXPECT_TRUE(room.is_too_much(64 * kMiB, has(kMuch, 8 * kMuch), 8 * kBudget));
  room.is_at_rest();
  EXPECT_TRUE(room.is_too_much(64 * kMiB, full, kBudget));
}

TEST_F(HeapRoomTest, NothingFitsThatIsMoreThanTheBudget) {
  for (const Bytes size : {kBudget + 1, Bytes{1} << 62U, Bytes{1} << 63U, ~Bytes{0}}) {
    EXPECT_FALSE(room.fits(size, has(kUsed, 0), kBudget));
    EXPECT_FALSE(room.is_too_much(size, has(kUsed, kUsed), kBudget));
  }
}

}  // namespace
}  // namespace spillway
