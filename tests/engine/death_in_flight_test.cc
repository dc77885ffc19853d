// What the program says of memory while launches that use it are in flight takes effect between the
// same launches (docs/engine.md, "Death in order").
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

TEST(DeathInFlight, AFreeWaitsForEveryLaunchBeforeItOnWhateverStream) {
  World world(one_at_a_time(8, 8, 0));
  const AllocationId a = world.allocate(2);
  const AllocationId b = world.allocate(1);
  world.begin({world.write(a)}, 0);
  world.begin({world.read(a)}, 1);
  world.free(a);
  world.begin({world.write(b)}, 2);
  EXPECT_TRUE(world.engine.space().is_live(a));
  world.end(2);
  world.end(3);
  EXPECT_THAT(world.mechanism.gone, IsEmpty());
  const AllocationId meanwhile = world.allocate(2);
  EXPECT_NE(meanwhile, a);
  EXPECT_NE(world.engine.space().allocation(meanwhile).first_block,
            world.engine.space().allocation(a).first_block);
  const BlockId first = world.engine.space().allocation(a).first_block;
  world.forget();
  world.end(1);
  EXPECT_THAT(world.mechanism.gone, ElementsAre(a));
  EXPECT_THAT(world.calls(), ElementsAre("unmap 0", "unmap 1", "drop 0 device", "drop 1 device"));
  const AllocationId next = world.allocate(2);
  EXPECT_EQ(next, a);
  EXPECT_EQ(world.engine.space().allocation(next).first_block, first);
  EXPECT_EQ(world.block(next).epoch, 0U);
}

// Numbers of blocks that still move are not given out either, although their owner's may be.
TEST(DeathInFlight, ABlocksNumberWaitsForItsTransfer) {
  World world(one_at_a_time(1, 8, 0));
  const auto [a, b] = world.written_blocks<2>();  // a has gone down
  const BlockId block = world.engine.space().allocation(b).first_block;
  world.begin({world.read(a)}, 0);  // b is on its way down
  world.free(b);
  EXPECT_THAT(world.mechanism.gone, ElementsAre(b));
  const AllocationId c = world.allocate(1);
  EXPECT_EQ(c, b);
  EXPECT_NE(world.engine.space().allocation(c).first_block, block);
  world.finish_all();
  world.end(3);
  EXPECT_EQ(world.engine.space().allocation(world.allocate(1)).first_block, block);
}

TEST(DeathInFlight, ADiscardTakesEffectBeforeTheLaunchBehindItIsAdmitted) {
  World world(one_at_a_time(2, 8, 0));
  const AllocationId a = world.allocate(2);
  world.policy.admitted_at_once.launches_per_stream = 1;
  world.begin({world.write(a)}, 0);
  world.discard(a);
  world.begin({world.read(a)}, 0);
  EXPECT_EQ(world.block(a).contents, Contents::kUndefined);
  world.forget();
  world.end(1);
  EXPECT_EQ(world.block(a).contents, Contents::kUndefined);  // recovered
  EXPECT_EQ(world.stats().recovered, 2U);
  EXPECT_THAT(world.calls(), Contains("ready 2"));
  world.end(2);
}

TEST(DeathInFlight, ADiscardLeavesTheBlocksOfALaunchThatWasAdmittedBehindIt) {
  World world(one_at_a_time(8, 8, 0));
  const AllocationId a = world.allocate(3);
  world.begin({world.write(a)}, 0);
  world.discard(a);
  Access part = world.write(a);
  part.first_block += 1;
  part.block_count = 1;
  world.begin({part}, 1);
  world.end(2);  // ... and that has ended since
  EXPECT_EQ(world.block(a, 1).contents, Contents::kLive);
  world.end(1);
  EXPECT_EQ(world.block(a, 0).contents, Contents::kDiscarded);
  EXPECT_EQ(world.block(a, 1).contents, Contents::kLive);
  EXPECT_TRUE(world.block(a, 1).mapped);
  EXPECT_EQ(world.block(a, 2).contents, Contents::kDiscarded);
}

TEST(DeathInFlight, ReuseAndPrefetchesWaitForTheDiscardBeforeThem) {
  World world(one_at_a_time(8, 8, 0));
  const AllocationId a = world.allocate(1);
  const AllocationId b = world.allocate(1);
  world.begin({world.write(a), world.write(b)}, 0);
  world.discard(a);
  world.discard(b);
  world.engine.reuse(a);
  world.prefetch(b);
  world.check();
  world.forget();
  world.end(1);
  EXPECT_THAT(world.calls(), Not(Contains(testing::StartsWith("drop"))));
  EXPECT_EQ(world.block(a).contents, Contents::kUndefined);
  EXPECT_EQ(world.block(b).contents, Contents::kUndefined);
  EXPECT_TRUE(world.block(a).mapped);
  EXPECT_TRUE(world.block(b).mapped);
}

// A policy hears of the new life when the old one is over.
class Listener final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "listener"; }
  void on_allocate(AllocationId id, Control& /*control*/) override {
    heard.push_back(fmt::format("allocate {}", id));
  }
  std::vector<std::string> heard;
};

TEST(DeathInFlight, PoliciesHearOfReuseBehindTheDeathThatCameBeforeIt) {
  RecordingMechanism mechanism;
  Listener policy;
  Engine engine(one_at_a_time(8, 8, 0), mechanism, policy);
  const AllocationId a = *engine.allocate(kBlockBytes, 0);
  const LaunchAdmission launch =
      engine.issue_launch({.stream = 0, .accesses = {{a, 0, 1, AccessMode::kWrite}}});
  engine.discard(a, DiscardMode::kLazy);
  engine.reuse(a);
  EXPECT_THAT(policy.heard, ElementsAre("allocate 0"));
  engine.end_launch(launch.id);
  EXPECT_THAT(policy.heard, ElementsAre("allocate 0", "allocate 0"));
}

TEST(DeathInFlight, PreEvictionsAndPrefetchesOfMemoryThatNothingWaitsForGoAhead) {
  World world(one_at_a_time(8, 8, 0));
  const auto [a, b] = world.written_blocks<2>();
  world.begin({world.write(b)}, 0);
  world.pre_evict(a);
  EXPECT_THAT(world.calls(), Contains("pre_evict device>host 0"));
  world.pre_evict(b);  // it is in use
  EXPECT_EQ(world.mechanism.under_way.size(), 1U);
  world.finish_all();
  world.end(3);
}

TEST(DeathInFlight, ManyRemarksOnOneAllocationKeepTheirOrder) {
  World world(one_at_a_time(8, 8, 0));
  const AllocationId a = world.allocate(1);
  std::uint64_t launch = 0;
  for (int i = 0; i < 100; ++i) {
    world.begin({world.write(a)}, static_cast<StreamId>(i % 3));
    world.discard(a);
  }
  world.free(a);
  for (launch = 100; launch > 1; --launch) {
    world.end(launch);
  }
  EXPECT_THAT(world.mechanism.gone, IsEmpty());
  world.end(1);
  EXPECT_THAT(world.mechanism.gone, ElementsAre(a));
  EXPECT_EQ(world.engine.used_bytes(Tier::kDevice), 0U);
}

// A launch that was issued before a discard, and is admitted after one that was issued behind it:
// two streams that use different parts of one block. What the later one wrote stays.
TEST(DeathInFlight, ADiscardLeavesWhatALaunchBehindItHasWritten) {
  World world(one_at_a_time(2, 4, 0));
  const AllocationId a = world.allocate(1);
  world.write_all({a});
  const SignalId signal = world.engine.create_signal();
  world.engine.wait_for_signal(signal, 0);
  world.begin({world.read(a)}, 0);  // stands behind the signal
  world.discard(a);
  world.begin({world.write(a)}, 1);
  world.end(3);
  world.engine.record_signal(signal, 2);  // on which nothing stands
  world.end(2);
  EXPECT_EQ(world.block(a).contents, Contents::kLive);
}

// What names nothing and comes behind nobody is not held back by a launch without room.
TEST(DeathInFlight, ALaunchWithoutOperandsWaitsForNobody) {
  World world(one_at_a_time(2, 4, 0));
  const AllocationId a = world.allocate(2);
  const AllocationId b = world.allocate(2);
  world.begin({world.write(a)});
  EXPECT_EQ(world.begin({world.write(b)}).state, LaunchState::kWaiting);
  EXPECT_EQ(world.begin({}).state, LaunchState::kReady);
  world.end(3);
  world.end(1);
  world.finish_all();
  world.end(2);
}

}  // namespace
}  // namespace spillway
