// Bytes in each tier, and copies that stay only while nothing needs their room.
#include "engine/memory/tier_accounts.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

class TierAccountsTest : public testing::Test {
 protected:
  TierAccountsTest() { (void)space.allocate(6 * kBlockBytes, 0); }
  // On the device, with a copy below that may go.
  void spare(BlockId id) {
    tiers.take(id, Tier::kHost);
    space.block(id).copies.add(Tier::kHost);
    if (!space.block(id).copies.has(Tier::kDevice)) {
      tiers.take(id, Tier::kDevice);
      space.block(id).copies.add(Tier::kDevice);
    }
    tiers.add_spare(id, Tier::kHost);
  }
  void check() const {
    const Status status = tiers.check();
    EXPECT_TRUE(status.has_value()) << status.error().message;
  }

  Space space;
  TierAccounts tiers{space, {4 * kBlockBytes, 3 * kBlockBytes, 0}};
};

TEST_F(TierAccountsTest, FramesAreTakenAndGivenBackWithTheirCopies) {
  tiers.take(0, Tier::kDevice);
  space.block(0).copies.add(Tier::kDevice);
  EXPECT_EQ(tiers.used_bytes(Tier::kDevice), kBlockBytes);
  EXPECT_EQ(tiers.free_bytes(Tier::kDevice), 3 * kBlockBytes);
  EXPECT_EQ(tiers.free_bytes(Tier::kStorage), 0U);
  check();
  tiers.give_back(0, Tier::kDevice);
  EXPECT_TRUE(space.block(0).copies.empty());
  EXPECT_TRUE(space.block(0).frames.empty());
  EXPECT_EQ(tiers.used_bytes(Tier::kDevice), 0U);
  check();
}

TEST_F(TierAccountsTest, ABudgetThatShrinksIsApproachedAndNotLeftAgain) {
  for (const BlockId id : {0U, 1U, 2U}) {
    tiers.take(id, Tier::kDevice);
  }
  tiers.set_capacity(Tier::kDevice, kBlockBytes);
  EXPECT_EQ(tiers.free_bytes(Tier::kDevice), 0U);
  check();
  tiers.give_back(0, Tier::kDevice);
  check();
  tiers.set_capacity(Tier::kDevice, 6 * kBlockBytes);
  EXPECT_EQ(tiers.free_bytes(Tier::kDevice), 4 * kBlockBytes);
  check();
}

TEST_F(TierAccountsTest, SpareCopiesAreFreeRoomAndGoOldestFirst) {
  for (const BlockId id : {2U, 0U, 1U}) {
    spare(id);
  }
  check();
  EXPECT_EQ(tiers.free_bytes(Tier::kHost), 3 * kBlockBytes);
  EXPECT_EQ(tiers.used_bytes(Tier::kHost), 3 * kBlockBytes);
  tiers.remove_spare(2, Tier::kHost);  // the only copy now
  EXPECT_EQ(tiers.free_bytes(Tier::kHost), 2 * kBlockBytes);
  EXPECT_EQ(tiers.spare_in_the_way(Tier::kHost, kBlockBytes), 0U);
  tiers.give_back(0, Tier::kHost);
  EXPECT_EQ(tiers.spare_in_the_way(Tier::kHost, kBlockBytes), std::nullopt);  // room enough
  EXPECT_EQ(tiers.spare_in_the_way(Tier::kHost, 2 * kBlockBytes), 1U);
  tiers.give_back(1, Tier::kHost);
  EXPECT_EQ(tiers.spare_in_the_way(Tier::kHost, 3 * kBlockBytes), std::nullopt);  // none is left
  check();
}

// As with clean copies below a tier that never fills up: a million times spare and not, in a time
// that does not grow with how often it was.
TEST_F(TierAccountsTest, BeingSpareAgainCostsNoMoreThanTheFirstTime) {
  spare(0);
  spare(1);
  for (int i = 0; i < 1'000'000; ++i) {
    tiers.remove_spare(0, Tier::kHost);
    tiers.add_spare(0, Tier::kHost);
    tiers.add_spare(0, Tier::kHost);  // it is already
  }
  check();
  EXPECT_EQ(tiers.free_bytes(Tier::kHost), 3 * kBlockBytes);
  EXPECT_EQ(tiers.spare_in_the_way(Tier::kHost, 3 * kBlockBytes), 0U);
}

}  // namespace
}  // namespace spillway
