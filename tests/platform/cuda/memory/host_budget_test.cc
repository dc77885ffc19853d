// Host memory as it is counted: what may be pinned, promised, and used over the link.
#include "platform/cuda/memory/host_budget.h"

#include <gtest/gtest.h>

namespace spillway::cuda {
namespace {

constexpr Bytes kMost = 1 * kGiB;
constexpr Bytes kPiece = 64 * kMiB;

MemoryRoom room_of(Bytes left_bytes) {
  MemoryRoom room{.limit_bytes = 64 * kGiB, .left_bytes = 0, .is_group = false, .whose = "a test"};
  room.left_bytes = room.kept_bytes() + left_bytes;
  return room;
}

TEST(HostBudget, WhatLaunchesUseOverTheLinkIsNotPinned) {
  const HostBudget budget(kMost, kPiece, false);
  EXPECT_EQ(budget.most_pinned_bytes(0), kMost);
  EXPECT_EQ(budget.most_pinned_bytes(10 * kMiB), kMost - kPiece);  // whole pieces
  EXPECT_EQ(budget.most_pinned_bytes(2 * kMost), 0U);
}

TEST(HostBudget, WithoutASightOfTheSystemAllOfItCanBeHad) {
  HostBudget budget(kMost, kPiece, false);
  EXPECT_EQ(budget.limit_bytes(0), kMost);
  EXPECT_FALSE(budget.system_limits(0));
  budget.grown(2 * kPiece);
  budget.end();
  EXPECT_EQ(budget.limit_bytes(kMiB), 2 * kPiece + kMiB);
  EXPECT_FALSE(budget.system_limits(0));  // the driver does
  EXPECT_FALSE(budget.may_grow(0));
}

TEST(HostBudget, TheSystemsRoomCountsFromWhatWasTakenThen) {
  HostBudget budget(kMost, kPiece, true);
  budget.grown(kPiece);
  budget.saw(room_of(100 * kMiB), 4 * kMiB, 1);
  EXPECT_EQ(budget.limit_bytes(4 * kMiB), kPiece + 104 * kMiB);
  EXPECT_TRUE(budget.system_limits(4 * kMiB));
  budget.grown(2 * kPiece);  // what is there stays, although the system had less to spare
  EXPECT_EQ(budget.limit_bytes(4 * kMiB), 3 * kPiece + 4 * kMiB);
  budget.saw(room_of(32 * kGiB), 0, 2);
  EXPECT_EQ(budget.limit_bytes(0), kMost);
  EXPECT_FALSE(budget.system_limits(0));
}

TEST(HostBudget, WhatWasSeenCountsForTenMilliseconds) {
  HostBudget budget(kMost, kPiece, true);
  budget.saw(room_of(kGiB), 0, 1'000);
  EXPECT_TRUE(budget.is_known(1'000 + 9'999'999));
  EXPECT_FALSE(budget.is_known(1'000 + 10'000'000));
}

TEST(HostBudget, ThatTheSystemIsShortIsSaidOnce) {
  HostBudget budget(kMost, kPiece, true);
  EXPECT_FALSE(budget.set_short(false));
  EXPECT_TRUE(budget.set_short(true));
  EXPECT_FALSE(budget.set_short(false));
  EXPECT_FALSE(budget.set_short(true));
  EXPECT_TRUE(budget.is_short());
}

TEST(HostBudget, LaunchesMayUseWhatIsNotToBePinned) {
  HostBudget budget(kMost, kPiece, false);
  EXPECT_EQ(budget.host_mapped_capacity_bytes(), 0U);  // no such device
  budget.allow_host_mapped(true);
  EXPECT_EQ(budget.host_mapped_capacity_bytes(), kMost);
  budget.want(kPiece + 1);
  EXPECT_EQ(budget.host_mapped_capacity_bytes(), kMost - 2 * kPiece);
  budget.want(kPiece);  // no less than was wanted before
  EXPECT_EQ(budget.host_mapped_capacity_bytes(), kMost - 2 * kPiece);
  budget.end();
  EXPECT_EQ(budget.host_mapped_capacity_bytes(), 0U);
}

// 10 ms, 20, 40 ... and at most 10 s between two tries; again 10 ms after a launch has got some.
TEST(HostBudget, ASystemThatHasNoneIsAskedLessAndLessOften) {
  HostBudget budget(kMost, kPiece, false);
  budget.allow_host_mapped(true);
  TimeNs now_ns = 1;
  EXPECT_FALSE(budget.may_try_again(now_ns));
  EXPECT_TRUE(budget.refused(now_ns));
  EXPECT_EQ(budget.host_mapped_capacity_bytes(), 0U);
  EXPECT_FALSE(budget.may_try_again(now_ns + 9'999'999));
  now_ns += 10'000'000;
  EXPECT_TRUE(budget.may_try_again(now_ns));
  budget.still_refused(now_ns);
  EXPECT_FALSE(budget.may_try_again(now_ns + 19'999'999));
  now_ns += 20'000'000;
  EXPECT_TRUE(budget.may_try_again(now_ns));
  budget.allowed_again();
  EXPECT_EQ(budget.host_mapped_capacity_bytes(), kMost);
  EXPECT_FALSE(budget.refused(now_ns));  // said once
  EXPECT_FALSE(budget.may_try_again(now_ns + 39'999'999));
  EXPECT_TRUE(budget.may_try_again(now_ns + 40'000'000));
  for (int i = 0; i < 20; ++i) {
    budget.still_refused(now_ns);
  }
  EXPECT_FALSE(budget.may_try_again(now_ns + 10 * kNsPerS - 1));
  EXPECT_TRUE(budget.may_try_again(now_ns + 10 * kNsPerS));
  budget.allowed_again();
  budget.got_host_mapped();
  EXPECT_FALSE(budget.refused(now_ns));
  EXPECT_TRUE(budget.may_try_again(now_ns + 10'000'000));
}

}  // namespace
}  // namespace spillway::cuda
