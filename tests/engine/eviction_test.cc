// What leaves the device to make room, where it goes, and copies that stay in storage.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Eviction, CancelledIfItsBlockIsUsedBeforeTheTransferStarts) {
  World world(one_at_a_time(2, 8, 0));
  world.written_blocks<2>();  // a and b
  const AllocationId c = world.allocate(2);
  world.begin({world.write(c)});  // a leaves
  world.finish();                 // c's first block is there; b leaves
  ASSERT_EQ(world.stats().evictions, 2U);
  world.finish();
  world.end(3);
  ASSERT_TRUE(world.engine.set_device_capacity(0).has_value());  // c leaves; its second waits
  world.forget();
  ASSERT_TRUE(world.engine.set_device_capacity(2 * kBlockBytes).has_value());
  Access second = world.read(c);
  second.first_block += 1;
  second.block_count = 1;
  EXPECT_EQ(world.begin({second}).state, LaunchState::kReady);
  EXPECT_THAT(world.calls(), ElementsAre("map 3", "ready 4"));
  EXPECT_EQ(world.stats().cancelled_evictions, 1U);
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 3 * kBlockBytes);  // a, b, half of c
}

TEST(Eviction, AlsoCancelledByAPrefetch) {
  World world(one_at_a_time(2, 8, 0));
  const AllocationId a = world.allocate(2);
  world.write_all({a});
  ASSERT_TRUE(world.engine.set_device_capacity(0).has_value());
  ASSERT_TRUE(world.engine.set_device_capacity(2 * kBlockBytes).has_value());
  world.forget();
  world.prefetch(a);
  EXPECT_THAT(world.calls(), ElementsAre("map 1"));  // 0 is under way
  EXPECT_EQ(world.stats().cancelled_evictions, 1U);
}

TEST(Eviction, ABlockThatIsUsedWhileItLeavesStays) {
  for (const bool fails : {false, true}) {
    World world(one_at_a_time(1, 8, 0));
    const AllocationId a = world.allocate(1);
    world.write_all({a});
    ASSERT_TRUE(world.engine.set_device_capacity(0).has_value());
    ASSERT_TRUE(world.engine.set_device_capacity(kBlockBytes).has_value());
    const LaunchAdmission admission = world.begin({world.read(a)});
    EXPECT_EQ(admission.state, LaunchState::kWaiting);
    EXPECT_EQ(admission.faulted_blocks, 0U);
    world.forget();
    fails ? world.fail() : world.finish();
    EXPECT_THAT(world.calls(), ElementsAre("drop 0 host", "map 0", "ready 2"));
    EXPECT_EQ(world.stats().cancelled_evictions, fails ? 0U : 1U);
  }
}

TEST(Eviction, GoesToTheTierThatThePolicyNamesAndElseToTheOther) {
  World world(one_at_a_time(1, 1, 2));
  world.policy.tier = Tier::kStorage;
  const std::vector<AllocationId> ids = world.allocate_single_blocks(4);
  world.run({world.write(ids[0])});
  world.run({world.write(ids[1])});
  EXPECT_TRUE(world.block(ids[0]).copies.has(Tier::kStorage));
  world.policy.tier = Tier::kHost;
  world.run({world.write(ids[2])});
  EXPECT_TRUE(world.block(ids[1]).copies.has(Tier::kHost));
  world.run({world.write(ids[3])});  // host memory is full
  EXPECT_TRUE(world.block(ids[2]).copies.has(Tier::kStorage));
  EXPECT_EQ(world.stats().moved(Tier::kDevice, Tier::kStorage), 2 * kBlockBytes);
}

TEST(Eviction, EverythingFullIsSaidAndEndsWhenRoomComes) {
  World world(one_at_a_time(1, 1, 0));
  const auto [a, b] = world.written_blocks<2>();  // a in host memory, b on the device
  const AllocationId c = world.allocate(1);
  EXPECT_EQ(world.begin({world.write(c)}).state, LaunchState::kWaiting);
  ASSERT_TRUE(world.engine.stuck().has_value());
  EXPECT_THAT(world.engine.stuck().value_or(Error{}).message, HasSubstr("out of memory"));
  EXPECT_TRUE(world.mechanism.under_way.empty());
  world.free(a);
  EXPECT_FALSE(world.engine.stuck().has_value());
  world.finish_all();
  EXPECT_THAT(world.calls(), Contains("ready 3"));
}

TEST(Eviction, AFaultTakesWhatCanGoIfThePolicysChoiceCannot) {
  World world(one_at_a_time(2, 0, 1));
  const AllocationId a = world.allocate(1);
  const AllocationId small = world.allocate_bytes(kBlockBytes / 2);
  const AllocationId other = world.allocate_bytes(kBlockBytes / 2);
  world.write_all({a, small, other});
  world.engine.set_capacity_below(Tier::kStorage, kBlockBytes / 2);
  world.begin({world.write(world.allocate_bytes(kBlockBytes / 2))});
  EXPECT_THAT(world.calls(), Contains("evict device>storage 1"));  // a, older, is too large
}

TEST(Eviction, AFaultDoesNotWaitForAPolicyThatGivesNothing) {
  World world(one_at_a_time(1, 8, 0));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  world.write_all({a});
  world.policy.victim = [](Cause) { return std::nullopt; };
  world.begin({world.write(b)});
  EXPECT_THAT(world.calls(), Contains("evict device>host 0"));
  world.finish_all();
  world.end(2);
  world.forget();
  world.prefetch(a);  // a prefetch does wait
  EXPECT_THAT(world.calls(), IsEmpty());
}

// Memory without contents needs no transfer, but it does need room: not before its turn.
TEST(Eviction, RoomGoesToTheOldestWish) {
  World world(one_at_a_time(2, 8, 0));
  const auto [a, b, c] = world.written_blocks<3>();  // a has been moved out
  const AllocationId fresh = world.allocate(1);
  world.begin({world.read(b), world.read(c)});
  world.prefetch(a);
  world.prefetch(fresh);
  EXPECT_THAT(world.calls(), no_transfer);
  world.end(4);
  world.engine.free(c);
  EXPECT_THAT(world.calls(), Contains("prefetch host>device 0"));
  EXPECT_FALSE(world.engine.space().block(3).copies.has(Tier::kDevice));
  world.finish_all();
  EXPECT_TRUE(world.engine.space().block(0).copies.has(Tier::kDevice));
}

TEST(Eviction, TakesNothingFromALaunchThatRuns) {
  World world(one_at_a_time(2, 8, 0));
  const auto [a, b] = world.written_blocks<2>();
  world.begin({world.read(a)});  // the oldest, and in use
  world.policy.victim = [](Cause) { return std::optional<BlockId>(0); };
  world.begin({world.write(world.allocate(1))});
  world.pre_evict(a);
  const auto calls = world.calls();
  EXPECT_THAT(calls, Contains("evict device>host 1"));
  EXPECT_THAT(calls, Not(Contains("unmap 0")));
}

TEST(Eviction, RoomIsMadeAheadForTheFaultsThatWait) {
  EngineOptions options = one_at_a_time(4, 8, 0);
  options.room_ahead_bytes = 2 * kBlockBytes;
  options.eviction_batch_bytes = 4 * kBlockBytes;
  World world(options);
  const AllocationId a = world.allocate(4);
  world.write_all({a});
  world.begin({world.write(world.allocate(3))});
  EXPECT_THAT(world.calls(), Contains("evict device>host 0 1"));  // 3 are needed, 2 ahead
}

// --- Copies that stay in storage ----------------------------------------------------------------

TEST(KeepStorageCopies, ABlockThatWasOnlyReadIsNotWrittenAgain) {
  for (const bool keep : {false, true}) {
    EngineOptions options = one_at_a_time(1, 0, 4);
    options.clean_copies = keep ? CleanCopies::kStorage : CleanCopies::kNone;
    World world(options);
    const auto [a, b] = world.written_blocks<2>();
    world.run({world.read(a)});  // a back from storage, b down
    EXPECT_EQ(world.block(a).copies.has(Tier::kStorage), keep);
    const Bytes before = world.stats().moved(Tier::kDevice, Tier::kStorage);
    world.run({world.read(b)});  // a leaves
    EXPECT_EQ(world.stats().moved(Tier::kDevice, Tier::kStorage) - before, keep ? 0 : kBlockBytes);
    world.run({world.write(a)});  // written: its copy in storage is stale
    EXPECT_FALSE(world.block(a).copies.has(Tier::kStorage));
    world.run({world.read(b)});
    EXPECT_TRUE(world.block(a).copies.has(Tier::kStorage));
  }
}

TEST(KeepStorageCopies, HostMemoryKeepsNone) {
  EngineOptions options = one_at_a_time(1, 4, 4);
  options.clean_copies = CleanCopies::kStorage;
  World world(options);
  const AllocationId a = world.allocate(1);
  world.write_all({a});
  world.pre_evict(a);
  world.finish();
  world.run({world.read(a)});
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
}

TEST(KeepStorageCopies, AFullStorageIsNotInTheWayOfBlocksThatHaveACopyThere) {
  EngineOptions options = one_at_a_time(2, 0, 2);
  options.clean_copies = CleanCopies::kStorage;
  World world(options);
  const AllocationId a = world.allocate(2);
  const AllocationId b = world.allocate(1);
  world.write_all({a});
  world.run({world.overwrite(b)});
  world.discard(b);
  world.run({world.read(a)});
  ASSERT_EQ(world.engine.used_bytes(Tier::kDevice), 2 * kBlockBytes);
  world.run({world.write(b)});  // the half of a that has a copy goes, older or not
  EXPECT_FALSE(world.engine.stuck().has_value());
  EXPECT_TRUE(world.block(b).mapped);
}

}  // namespace
}  // namespace spillway
