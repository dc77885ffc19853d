// Budgets that change, transfers that fail, and numbers that are subtracted.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Budget, ASmallerOneIsReachedByGivingBackInOrder) {
  World world(one_at_a_time(4, 8, 0));
  const std::vector<AllocationId> ids = world.allocate_single_blocks(4);
  world.write_all(ids);
  world.pre_evict(ids[3]);
  world.finish_all();
  world.discard(ids[2]);
  world.forget();
  ASSERT_TRUE(world.engine.set_device_capacity(kBlockBytes).has_value());
  EXPECT_THAT(world.calls(),
              ElementsAre("unmap 0", "drop 3 device", "drop 2 device", "evict device>host 0"));
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);  // not there yet
  EXPECT_EQ(world.engine.free_bytes(Tier::kDevice), 0U);
  world.finish();
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), kBlockBytes);
  EXPECT_TRUE(world.block(ids[1]).mapped);
}

TEST(Budget, AFailedEvictionOnTheWayToASmallerOneIsTriedAgain) {
  World world(one_at_a_time(2, 8, 0));
  const AllocationId a = world.allocate(2);
  world.write_all({a});
  ASSERT_TRUE(world.engine.set_device_capacity(kBlockBytes).has_value());
  world.fail();
  EXPECT_EQ(world.mechanism.under_way.size(), 1U);
  world.finish_all();
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), kBlockBytes);
}

TEST(Budget, LessThanRunningLaunchesUseIsRefused) {
  World world(one_at_a_time(4, 8, 0));
  const AllocationId a = world.allocate(2);
  const AllocationId b = world.allocate(1);
  world.begin({world.write(a)});
  world.begin({world.write(b)});
  for (const Bytes blocks : {1U, 2U}) {  // less than one of them, less than both
    const Status status = world.engine.set_device_capacity(blocks * kBlockBytes);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
    EXPECT_THAT(status.error().message, HasSubstr("MiB"));
    EXPECT_EQ(world.engine.capacity_bytes(Tier::kDevice), 4 * kBlockBytes);
  }
  EXPECT_TRUE(world.engine.set_device_capacity(3 * kBlockBytes).has_value());
  world.end(1);
  EXPECT_TRUE(world.engine.set_device_capacity(kBlockBytes).has_value());
}

TEST(Budget, ALargerOneLetsWaitingLaunchesIn) {
  World world(one_at_a_time(2, 8, 0));
  const AllocationId a = world.allocate(2);
  const AllocationId b = world.allocate(1);
  world.begin({world.write(a)});
  EXPECT_EQ(world.begin({world.write(b)}).state, LaunchState::kWaiting);
  world.forget();
  ASSERT_TRUE(world.engine.set_device_capacity(3 * kBlockBytes).has_value());
  EXPECT_THAT(world.calls(), ElementsAre("zero 2", "map 2", "served 2", "ready 2"));
}

TEST(Budget, LowerTiersMayShrinkBelowWhatTheyHold) {
  World world(one_at_a_time(1, 2, 4));
  const auto [a, b] = world.written_blocks<2>();
  const AllocationId c = world.allocate(1);
  world.engine.set_capacity_below(Tier::kHost, 0);
  world.check();
  EXPECT_EQ(world.engine.free_bytes(Tier::kHost), 0U);
  world.run({world.write(c)});  // b finds no room there
  EXPECT_TRUE(world.block(b).copies.has(Tier::kStorage));
  EXPECT_TRUE(world.block(a).copies.has(Tier::kHost));
  world.run({world.read(a)});
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
}

TEST(Failure, AFetchIsTriedAgainAndTheSourceStays) {
  World world(one_at_a_time(1, 8, 0));
  const auto [a, b] = world.written_blocks<2>();
  world.discard(b);
  world.begin({world.read(a)});
  world.forget();
  world.fail();
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 device", "fault host>device 0"));
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 host", "map 0", "served 3", "ready 3"));
  EXPECT_EQ(world.stats().failed_transfers, 1U);
  EXPECT_EQ(world.stats().moved(Tier::kHost, Tier::kDevice), kBlockBytes);
}

TEST(Failure, APrefetchThatNobodyWaitsForIsNotTriedAgain) {
  World world(one_at_a_time(1, 8, 0));
  const auto [a, b] = world.written_blocks<2>();
  world.discard(b);
  world.prefetch(a);
  world.forget();
  world.fail();
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 device"));
  EXPECT_TRUE(world.block(a).copies.has(Tier::kHost));
}

TEST(Failure, AnotherVictimIsTriedAfterAnEvictionFailed) {
  World world(one_at_a_time(2, 8, 0));
  const auto [a, b] = world.written_blocks<2>();
  world.begin({world.write(world.allocate(1))});
  EXPECT_THAT(world.calls(), Contains("evict device>host 0"));
  world.fail();
  EXPECT_THAT(world.calls(), ElementsAre("unmap 1", "drop 0 host", "map 0", "evict device>host 1"));
  world.finish_all();
  EXPECT_TRUE(world.block(a).mapped);
}

TEST(Failure, ManyInARowAreFatalAndStopEverything) {
  EngineOptions options = one_at_a_time(1, 8, 0);
  options.failures_in_a_row_max = 3;
  World world(options);
  const auto [a, b] = world.written_blocks<2>();
  world.discard(b);
  world.begin({world.read(a)});
  world.fail();
  world.fail();
  world.finish();  // not in a row
  world.end(3);
  world.begin({world.read(b)});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(world.engine.fatal().has_value());
    world.fail();
  }
  ASSERT_TRUE(world.engine.fatal().has_value());
  const Error fatal = world.engine.fatal().value_or(Error{});
  EXPECT_EQ(fatal.code, ErrorCode::kIo);
  EXPECT_THAT(fatal.message, HasSubstr("3 transfers in a row"));
  EXPECT_TRUE(world.mechanism.under_way.empty());
  EXPECT_TRUE(world.block(a).copies.has(Tier::kDevice));  // and nothing is lost
  world.forget();
  world.prefetch(b);
  EXPECT_THAT(world.calls(), IsEmpty());
}

TEST(Stats, TheDifferenceIsFieldByField) {
  EngineStats before;
  EngineStats after;
  std::uint64_t value = 1;
  for (std::size_t from = 0; from < kTierCount; ++from) {
    for (std::size_t to = 0; to < kTierCount; ++to) {
      before.moved_bytes[from][to] = value++;
      after.moved_bytes[from][to] = 3 * before.moved_bytes[from][to];
    }
  }
  const std::array fields{&EngineStats::launches,
                          &EngineStats::updates,
                          &EngineStats::faults,
                          &EngineStats::late_prefetches,
                          &EngineStats::prefetched,
                          &EngineStats::prefetches_used,
                          &EngineStats::prefetches_wasted,
                          &EngineStats::evictions,
                          &EngineStats::pre_evictions,
                          &EngineStats::cancelled_evictions,
                          &EngineStats::reclaimed_unused,
                          &EngineStats::reclaimed_discarded,
                          &EngineStats::recovered,
                          &EngineStats::zeroed,
                          &EngineStats::failed_transfers,
                          &EngineStats::saved_by_discard_bytes,
                          &EngineStats::given_up_bytes,
                          &EngineStats::host_mapped_bytes};
  static_assert(sizeof(EngineStats) == 8 * (9 + fields.size()), "a field is missing here");
  for (const auto field : fields) {
    before.*field = value++;
    after.*field = 3 * (before.*field);
  }
  const EngineStats result = difference(after, before);
  EXPECT_EQ(result.moved(Tier::kHost, Tier::kDevice), 2 * before.moved(Tier::kHost, Tier::kDevice));
  for (std::size_t from = 0; from < kTierCount; ++from) {
    for (std::size_t to = 0; to < kTierCount; ++to) {
      EXPECT_EQ(result.moved_bytes[from][to], 2 * before.moved_bytes[from][to]);
    }
  }
  for (const auto field : fields) {
    EXPECT_EQ(result.*field, 2 * (before.*field));
  }
}

}  // namespace
}  // namespace spillway
