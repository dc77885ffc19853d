// What may be promised to a program, and what it is told when that is not enough.
#include "platform/common/process/commitment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace spillway {
namespace {

using ::testing::HasSubstr;

using Tiers = std::array<Bytes, kTierCount>;

TEST(Commitment, IsAllTiersLessRoomToExchange) {
  Commitment commitment;
  const Tiers tiers{32 * kMiB, 24 * kMiB, 64 * kMiB};
  EXPECT_FALSE(commitment.promise(104 * kMiB + 1, tiers));
  EXPECT_EQ(commitment.bytes(), 0U);
  EXPECT_TRUE(commitment.promise(104 * kMiB, tiers));
  EXPECT_FALSE(commitment.promise(1, tiers));
  commitment.take_back(kMiB);
  EXPECT_TRUE(commitment.promise(kMiB, tiers));
}

// A device alone needs no room below: nothing leaves it.
TEST(Commitment, NeedsNoExchangeWhereThereIsNothingBelow) {
  EXPECT_TRUE(Commitment().promise(32 * kMiB, {32 * kMiB, 0, 0}));
  EXPECT_FALSE(Commitment().promise(32 * kMiB + 1, {32 * kMiB, 0, 0}));
  EXPECT_FALSE(Commitment().promise(32 * kMiB + 1, {32 * kMiB, 8 * kMiB, 0}));
}

TEST(Commitment, KnowsItsPeak) {
  Commitment commitment;
  const Tiers tiers{32 * kMiB, 0, 0};
  ASSERT_TRUE(commitment.promise(20 * kMiB, tiers));
  commitment.take_back(12 * kMiB);
  ASSERT_TRUE(commitment.promise(4 * kMiB, tiers));
  EXPECT_EQ(commitment.bytes(), 12 * kMiB);
  EXPECT_EQ(commitment.peak_bytes(), 20 * kMiB);
  ASSERT_FALSE(commitment.promise(21 * kMiB, tiers));
  EXPECT_EQ(commitment.peak_bytes(), 20 * kMiB);
}

// No sum of what is in use and what is asked for may wrap around.
TEST(Commitment, RefusesAnyNumberThatIsTooLarge) {
  Commitment commitment;
  const Tiers tiers{32 * kMiB, 24 * kMiB, 0};
  ASSERT_TRUE(commitment.promise(16 * kMiB, tiers));
  for (const Bytes bytes : {std::numeric_limits<Bytes>::max(),
                            std::numeric_limits<Bytes>::max() - 16 * kMiB + 1, 24 * kMiB + 1}) {
    EXPECT_FALSE(commitment.promise(bytes, tiers)) << bytes;
  }
  // A budget that has shrunk below what is promised already.
  EXPECT_FALSE(commitment.promise(1, {8 * kMiB, 0, 0}));
  EXPECT_EQ(commitment.bytes(), 16 * kMiB);
}

TEST(Commitment, SaysWhichBudgetsAreInTheWay) {
  Commitment commitment;
  const Tiers tiers{32 * kMiB, 24 * kMiB, 64 * kMiB};
  ASSERT_TRUE(commitment.promise(100 * kMiB, tiers));
  const Status refused = commitment.promise(7 * kMiB, tiers);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  for (const char* const part : {"7 MiB asked for", "100 MiB in use", "32 MiB of device memory",
                                 "24 MiB of host memory", "64 MiB of storage", "--host-memory"}) {
    EXPECT_THAT(refused.error().message, HasSubstr(part));
  }
}

}  // namespace
}  // namespace spillway
