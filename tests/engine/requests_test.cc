// Who waits for a block, who is to come and who is to go; transfers under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/launches/waiters.h"
#include "engine/moves/eviction_queue.h"
#include "engine/moves/fetch_queue.h"
#include "engine/moves/in_flight_transfers.h"

namespace spillway {
namespace {

using testing::ElementsAre;

constexpr auto kNoLimit = FetchQueue::kNoLimit;
constexpr FetchState kFault = FetchState::kFault;
constexpr FetchState kPrefetch = FetchState::kPrefetch;

class Wishes : public testing::Test {
 protected:
  Wishes() { (void)space.allocate(8 * kBlockBytes, 0); }
  // The block is alive, and its bytes are there.
  void put(BlockId id, Tier tier) {
    Block& block = space.block(id);
    block.contents = Contents::kLive;
    block.frames.add(tier);
    block.copies.add(tier);
  }
  std::vector<BlockId> take_all(FetchQueue& fetches, FetchState priority, Source source,
                                std::uint64_t limit = kNoLimit) {
    std::vector<BlockId> taken;
    while (const std::optional<BlockId> id = fetches.front(priority, source, limit)) {
      taken.push_back(*id);
      fetches.pop(priority, source);
    }
    return taken;
  }

  Space space;
};

TEST_F(Wishes, WaitersOfABlockAreVisitedAndForgotten) {
  Waiters waiters;
  const auto launches = [&](BlockId id) {
    std::vector<std::uint32_t> slots;
    waiters.for_each(space.block(id), [&](const Waiters::Waiter& waiter) {
      slots.push_back(waiter.launch_slot + (waiter.faulted ? 100 : 0));
    });
    return slots;
  };
  for (int round = 0; round < 3; ++round) {  // nodes are used again
    waiters.add(space.block(0), {.launch_slot = 1, .faulted = false});
    waiters.add(space.block(1), {.launch_slot = 1, .faulted = true});
    waiters.add(space.block(0), {.launch_slot = 2, .faulted = false});
    EXPECT_THAT(launches(0), testing::UnorderedElementsAre(1, 2));
    EXPECT_THAT(launches(1), ElementsAre(101));
    waiters.clear(space.block(0));
    EXPECT_THAT(launches(0), ElementsAre());
    EXPECT_THAT(launches(1), ElementsAre(101));
    waiters.clear(space.block(1));
    waiters.clear(space.block(1));
  }
}

TEST_F(Wishes, FetchesComeInTheirOrderFromWhereTheBytesAre) {
  FetchQueue fetches(space);
  put(1, Tier::kHost);
  put(2, Tier::kStorage);
  put(3, Tier::kHost);
  for (const BlockId id : {3U, 0U, 2U, 1U}) {
    fetches.add(id, kPrefetch);
  }
  EXPECT_EQ(fetches.prefetch_bytes(), 4 * kBlockBytes);
  EXPECT_LT(fetches.head_order(kPrefetch, Source::kHostCopy),
            fetches.head_order(kPrefetch, Source::kZeros));
  fetches.add(1, kFault);  // leaves the other queue
  EXPECT_EQ(fetches.fault_bytes(), kBlockBytes);
  EXPECT_EQ(fetches.prefetch_bytes(), 3 * kBlockBytes);
  EXPECT_TRUE(fetches.check().has_value());
  const std::uint64_t limit = fetches.head_order(kPrefetch, Source::kZeros);
  EXPECT_THAT(take_all(fetches, kPrefetch, Source::kHostCopy, limit), ElementsAre(3));
  EXPECT_THAT(take_all(fetches, kPrefetch, Source::kStorageCopy, limit), ElementsAre());
  EXPECT_THAT(take_all(fetches, kPrefetch, Source::kStorageCopy), ElementsAre(2));
  EXPECT_THAT(take_all(fetches, kPrefetch, Source::kHostCopy), ElementsAre());
  EXPECT_THAT(take_all(fetches, kFault, Source::kHostCopy), ElementsAre(1));
  EXPECT_THAT(take_all(fetches, kPrefetch, Source::kZeros), ElementsAre(0));
  EXPECT_EQ(fetches.prefetch_bytes(), 0U);
  EXPECT_EQ(fetches.head_order(kPrefetch, Source::kZeros), kNoLimit);
  EXPECT_TRUE(fetches.check().has_value());
}

// Wishes that are taken back and made again while nothing comes up cost no more the millionth time
// than the first, and the block comes once.
TEST_F(Wishes, AMillionThatAreTakenBackAndMadeAgainCostNothingLater) {
  FetchQueue fetches(space);
  EvictionQueue evictions(space);
  fetches.add(7, kPrefetch);
  evictions.wish(7, Tier::kHost, false);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto id = static_cast<BlockId>(i % 7);
    fetches.remove(space.block(id));
    fetches.add(id, kPrefetch);
    evictions.wish(id, Tier::kHost, false);
    evictions.wish_down(id);
  }
  EXPECT_EQ(fetches.prefetch_bytes(), 8 * kBlockBytes);
  EXPECT_EQ(evictions.ahead_bytes(Tier::kHost), 8 * kBlockBytes);
  EXPECT_TRUE(fetches.check().has_value());
  EXPECT_THAT(take_all(fetches, kPrefetch, Source::kZeros), ElementsAre(7, 0, 1, 2, 3, 4, 5, 6));
}

TEST_F(Wishes, VictimsLeaveInTheirOrderUnlessTheyStay) {
  EvictionQueue evictions(space);
  for (const BlockId id : {2U, 0U, 1U}) {
    space.block(id).frames.add(Tier::kHost);
    evictions.promise(id, Tier::kHost);
  }
  space.block(3).frames.add(Tier::kStorage);
  evictions.promise(3, Tier::kStorage);
  EXPECT_EQ(evictions.promised_bytes(), 4 * kBlockBytes);
  evictions.take_back_promise(space.block(0));
  EXPECT_TRUE(evictions.check(0).has_value());
  EXPECT_EQ(evictions.take(Cause::kEvict, Tier::kHost), 2U);
  EXPECT_EQ(evictions.take(Cause::kEvict, Tier::kHost), 1U);
  EXPECT_EQ(evictions.take(Cause::kEvict, Tier::kHost), std::nullopt);
  EXPECT_EQ(evictions.take(Cause::kEvict, Tier::kStorage), 3U);
  EXPECT_EQ(evictions.promised_bytes(), 3 * kBlockBytes);  // until they have left
}

TEST_F(Wishes, ACopyAheadOfNeedIsForOneTierAndCountsUntilItHasEnded) {
  EvictionQueue evictions(space);
  evictions.wish(0, Tier::kHost, false);
  evictions.wish(1, Tier::kHost, false);
  evictions.wish(0, Tier::kStorage, false);  // another tier: the former wish is gone
  EXPECT_EQ(evictions.ahead_bytes(Tier::kHost), kBlockBytes);
  EXPECT_EQ(evictions.ahead_bytes(Tier::kStorage), kBlockBytes);
  EXPECT_TRUE(evictions.check(0).has_value());
  EXPECT_EQ(evictions.take(Cause::kPreEvict, Tier::kHost), 1U);
  evictions.take_back_wish(space.block(1));
  evictions.copy_begins(space.block(1), Tier::kHost);
  EXPECT_EQ(evictions.ahead_bytes(Tier::kHost), kBlockBytes);
  EXPECT_TRUE(evictions.check(kBlockBytes).has_value());
  EXPECT_FALSE(evictions.check(0).has_value());
  evictions.copy_ended(space.block(1), Tier::kHost);
  evictions.take_back_wish(space.block(0));
  evictions.take_back_wish(space.block(0));
  EXPECT_EQ(evictions.ahead_bytes(Tier::kStorage), 0U);
  EXPECT_EQ(evictions.take(Cause::kPreEvict, Tier::kStorage), std::nullopt);
  evictions.wish_down(5);
  EXPECT_EQ(evictions.take_down(), 5U);
  EXPECT_EQ(evictions.take_down(), std::nullopt);
}

TEST_F(Wishes, ATransferHasALaneAndAnIdOfItsOwn) {
  InFlightTransfers flights(space);
  Lane lane{.in_flight_max = 2};
  for (const BlockId id : {0U, 1U, 2U}) {
    put(id, Tier::kHost);
    space.block(id).frames.add(Tier::kDevice);
  }
  const auto depart = [&](std::vector<BlockId> blocks) {
    Transfer transfer{.from = Tier::kHost, .to = Tier::kDevice};
    for (const BlockId id : blocks) {
      flights.add(transfer, id);
    }
    return flights.depart(std::move(transfer), lane).id;
  };
  const TransferId first = depart({0, 1});
  EXPECT_FALSE(lane.full());
  const TransferId second = depart({2});
  EXPECT_TRUE(lane.full());
  EXPECT_NE(first, second);
  EXPECT_EQ(flights.of(space.block(1)).id, first);
  EXPECT_EQ(flights.of(space.block(1)).bytes, 2 * kBlockBytes);
  EXPECT_EQ(flights.under_way(), 2U);
  const Transfer landed = flights.land(first);
  EXPECT_THAT(landed.blocks, ElementsAre(0, 1));
  EXPECT_EQ(space.block(0).transfer, kNoIndex);
  EXPECT_EQ(lane.in_flight, 1U);
  EXPECT_NE(depart({0}), first);  // the slot again, and another id
  EXPECT_EQ(flights.copying_ahead_bytes(), 0U);
}

}  // namespace
}  // namespace spillway
