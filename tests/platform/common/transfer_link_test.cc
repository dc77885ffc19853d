// Transfers on a link of a given speed: what takes it, what passes it, and who waits for whom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "platform/common/transfer_world.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;

constexpr TimeNs kPageNs = 20 * kNsPerMs;  // on the link
constexpr LinkSpeed kLink{.bytes_per_s = static_cast<double>(kPageBytes) * 1e9 / kPageNs};

std::size_t place_of(const std::vector<TransferId>& order, TransferId id) {
  return static_cast<std::size_t>(std::ranges::find(order, id) - order.begin());
}

TEST(TransferLink, TransfersOfOneDirectionFollowEachOther) {
  TransferWorld world(kLink);
  const TimeNs begin_ns = now_ns();
  for (TransferId id = 1; id <= 3; ++id) world.add(id, Cause::kFault);
  EXPECT_THAT(world.carrier.order_of_ends(3), ElementsAre(1, 2, 3));
  EXPECT_GE(now_ns() - begin_ns, 3 * kPageNs);
}

// Nobody sleeps while something is on the link: the other direction carries as well.
TEST(TransferLink, BothDirectionsCarryAtOnce) {
  TransferWorld world(kLink);
  for (TransferId id = 1; id <= 4; ++id) world.add(id, Cause::kFault);
  world.add(5, Cause::kEvict);
  const std::vector<TransferId> order = world.carrier.order_of_ends(5);
  EXPECT_LT(place_of(order, 5), place_of(order, 4));
}

// What a thread waits for stands behind one prefetch at most.
TEST(TransferLink, AFaultStandsBehindOnePrefetchAtMost) {
  TransferWorld world(kLink);
  for (TransferId id = 1; id <= 4; ++id) world.add(id, Cause::kPrefetch);
  (void)world.carrier.wait_for_ends(1);
  world.add(9, Cause::kFault);
  const std::size_t before = world.carrier.wait_for_ends(0).size();
  EXPECT_LE(place_of(world.carrier.order_of_ends(5), 9), before + 1);
}

TEST(TransferLink, WhatIsCopiedAheadOfNeedWaitsForItsOwnDirectionOnly) {
  TransferWorld world(kLink);
  for (TransferId id = 1; id <= 5; ++id) world.add(id, Cause::kFault);  // in
  (void)world.carrier.wait_for_ends(1);                                 // all have taken the link
  world.add(6, Cause::kPrefetch);                                       // in
  world.add(7, Cause::kPreEvict);                                       // out
  const std::vector<TransferId> order = world.carrier.order_of_ends(7);
  EXPECT_EQ(order.back(), 6U);
  EXPECT_LT(place_of(order, 7), place_of(order, 5));
}

// What is read is on the link only when it has been read; what has failed, and what goes to the
// swap file, never is.
TEST(TransferLink, OnlyBytesThatAreThereTakeIt) {
  TransferWorld world(kLink);
  world.add_read(1, Cause::kFault, {1});
  for (TransferId id = 2; id <= 5; ++id) world.add(id, Cause::kFault);
  const auto failed = TransferWorld::job(6, Cause::kFault, Tier::kHost, Tier::kDevice, {6});
  failed->error = ENOMEM;
  world.workers.add(failed);
  world.add_write(7, Cause::kEvict, {7});
  world.requests.wait_for(2);
  world.requests.answer(1, 0);
  const std::vector<TransferId> order = world.carrier.order_of_ends(6);
  EXPECT_LT(place_of(order, 6), place_of(order, 5));
  EXPECT_LT(place_of(order, 7), place_of(order, 5));
  const TimeNs read_ns = now_ns();
  world.requests.answer(0, 0, 1);
  EXPECT_EQ(world.carrier.order_of_ends(7).back(), 1U);
  EXPECT_GE(now_ns() - read_ns, kPageNs);
}

// A block that was read ahead of need waits for a free link. Once somebody stops at it, it waits no
// longer than what somebody stopped at before.
TEST(TransferLink, WhatIsHurriedAfterItWasReadNeedsNoFreeLink) {
  TransferWorld world(kLink);
  world.add_read(1, Cause::kPrefetch, {1});
  world.requests.wait_for(1);
  for (TransferId id = 2; id <= 5; ++id) world.add(id, Cause::kFault);
  (void)world.carrier.wait_for_ends(1);  // they have all taken the link
  world.requests.answer(0, 0, 1);
  world.workers.hurry(1);
  for (TransferId id = 6; id <= 9; ++id) world.add(id, Cause::kFault);
  EXPECT_THAT(world.carrier.order_of_ends(9), ElementsAre(2, 3, 4, 5, 1, 6, 7, 8, 9));
}

}  // namespace
}  // namespace spillway
