// Launches that run at the host, next to their data: docs/near-memory.md.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Two blocks on the device, four in host memory, eight in storage.
class Update : public testing::Test {
 protected:
  explicit Update(const EngineOptions& options = one_at_a_time(2, 4, 8)) : world(options) {}

  LaunchAdmission update(std::vector<Access> accesses, StreamId stream = kNoStream) {
    return world.issue({.runs_at = Tier::kHost, .stream = stream, .accesses = std::move(accesses)});
  }
  [[nodiscard]] Access change(AllocationId id) const {
    return world.use(id, AccessMode::kReadWrite);
  }
  void expect_only_at_host(AllocationId id) const {
    EXPECT_TRUE(world.block(id).copies.has(Tier::kHost));
    EXPECT_FALSE(world.block(id).frames.has(Tier::kDevice));
    EXPECT_FALSE(world.block(id).frames.has(Tier::kStorage));
  }

  World world;
};

TEST_F(Update, WhatIsInHostMemoryIsUsedThere) {
  const auto ids = world.written_blocks<3>();  // the first has left
  EXPECT_EQ(update({change(ids[0])}).state, LaunchState::kReady);
  EXPECT_THAT(world.calls(), ElementsAre("ready 4"));
  EXPECT_TRUE(world.block(ids[0]).at_host);
  world.end(4);
  EXPECT_FALSE(world.block(ids[0]).at_host);
  expect_only_at_host(ids[0]);
  EXPECT_EQ(world.stats().updates, 1U);
  EXPECT_EQ(world.stats().launches, 3U);
}

TEST_F(Update, WhatIsOnTheDeviceComesFirst) {
  const auto ids = world.written_blocks<1>();
  EXPECT_EQ(update({change(ids[0])}).state, LaunchState::kWaiting);
  EXPECT_THAT(world.calls(), ElementsAre("unmap 0", "evict device>host 0"));
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 device", "ready 2"));
  world.end(2);
  expect_only_at_host(ids[0]);
}

TEST_F(Update, ACopyThatIsBelowAlreadyIsEnough) {
  const auto ids = world.written_blocks<1>();
  world.pre_evict(ids[0]);
  world.finish_all();
  world.forget();
  EXPECT_EQ(update({world.read(ids[0])}).state, LaunchState::kReady);
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 device", "ready 2"));
}

TEST_F(Update, WhatIsInStorageComesFromThere) {
  const auto ids = world.written_blocks<1>();
  world.pre_evict(ids[0], Tier::kStorage);
  world.finish_all();
  world.run({world.write(world.allocate(2))});  // takes its frame
  world.forget();
  EXPECT_EQ(update({change(ids[0])}).state, LaunchState::kWaiting);
  EXPECT_THAT(world.calls(), ElementsAre("fault storage>host 0"));
  world.fail();  // tried again
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 host", "fault storage>host 0"));
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 storage", "ready 3"));
  world.end(3);
  expect_only_at_host(ids[0]);
}

TEST_F(Update, WhatWasNeverWrittenIsZeros) {
  const AllocationId state = world.allocate(1);
  EXPECT_EQ(update({change(state)}).state, LaunchState::kReady);
  EXPECT_THAT(world.calls(), ElementsAre("zero at host 0", "ready 1"));
  world.end(1);
  EXPECT_EQ(world.block(state).contents, Contents::kLive);
  expect_only_at_host(state);
}

TEST_F(Update, ZerosThatWereOnlyReadAreGivenBack) {
  const AllocationId state = world.allocate(1);
  update({world.read(state)});
  world.end(1);
  EXPECT_TRUE(world.block(state).frames.empty());
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
}

TEST_F(Update, WaitsForTheLaunchThatUsesItsData) {
  const auto ids = world.written_blocks<1>();
  world.begin({world.write(ids[0])});
  EXPECT_EQ(update({change(ids[0])}).state, LaunchState::kWaiting);
  EXPECT_FALSE(world.block(ids[0]).at_host);
  world.end(2);
  EXPECT_TRUE(world.block(ids[0]).at_host);
  world.finish();
  EXPECT_THAT(world.calls(), Contains("ready 3"));
}

TEST_F(Update, ALaunchOnTheDeviceWaitsForIt) {
  const auto ids = world.written_blocks<3>();
  update({change(ids[0])});
  EXPECT_EQ(world.begin({world.read(ids[0])}).state, LaunchState::kWaiting);
  world.forget();
  world.prefetch(ids[0]);  // not while it is used
  EXPECT_THAT(world.calls(), IsEmpty());
  world.end(4);
  EXPECT_TRUE(world.block(ids[0]).pins > 0 && !world.block(ids[0]).at_host);
  world.finish_all();
  EXPECT_THAT(world.calls(), Contains("ready 5"));
}

// The gradient's kernel still runs: what else the device has to do goes on.
TEST_F(Update, DoesNotHoldBackWhatUsesOtherData) {
  const auto ids = world.written_blocks<2>();
  world.begin({world.write(ids[0])}, 0);
  update({change(ids[0])}, 1);
  EXPECT_EQ(world.begin({world.write(ids[1])}, 0).state, LaunchState::kReady);
}

TEST_F(Update, LaterLaunchesDoNotOvertakeItOnItsData) {
  const auto ids = world.written_blocks<2>();
  world.begin({world.read(ids[0])}, 0);  // 3
  update({world.read(ids[0])}, 1);       // 4
  EXPECT_EQ(world.begin({world.read(ids[0])}, 0).state, LaunchState::kWaiting);
  world.end(3);
  world.finish();
  EXPECT_THAT(world.calls(), Contains("ready 4"));
  world.end(4);
  world.finish_all();
  EXPECT_THAT(world.calls(), Contains("ready 5"));
}

TEST_F(Update, WhatWasUpdatedLastLeavesHostMemoryFirst) {
  std::vector<AllocationId> states = world.allocate_single_blocks(5);
  for (std::size_t i = 0; i < 4; ++i) {
    update({change(states[i])});
    world.end(i + 1);
  }
  world.forget();
  update({change(states[4])});
  EXPECT_THAT(world.calls(), ElementsAre("pre_evict host>storage 3"));
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("drop 3 host", "zero at host 4", "ready 5"));
}

TEST_F(Update, ThePolicySaysWhatLeavesHostMemory) {
  std::vector<AllocationId> states = world.allocate_single_blocks(5);
  for (std::size_t i = 0; i < 4; ++i) {
    update({change(states[i])});
    world.end(i + 1);
  }
  world.forget();
  world.policy.host_victim = 1;
  update({change(states[4])});
  EXPECT_THAT(world.calls(), ElementsAre("pre_evict host>storage 1"));
}

TEST_F(Update, HoldsNoMoreThanHostMemory) {
  std::vector<AllocationId> states = world.allocate_single_blocks(5);
  const auto first_four =
      std::vector{change(states[0]), change(states[1]), change(states[2]), change(states[3])};
  EXPECT_EQ(update(first_four).state, LaunchState::kReady);
  EXPECT_EQ(update({change(states[4])}).state, LaunchState::kWaiting);
  auto all = first_four;
  all.push_back(change(states[4]));
  EXPECT_EQ(update(all).state, LaunchState::kTooLarge);
  world.end(1);
  EXPECT_THAT(world.calls(), Contains("pre_evict host>storage 3"));
}

TEST_F(Update, WithoutRoomTheEngineSaysSo) {
  World small(one_at_a_time(2, 1, 0));
  const auto ids = small.written_blocks<2>();
  const auto in_host = small.allocate(1);
  small.run({small.write(in_host)});  // the first block fills host memory
  small.issue({.runs_at = Tier::kHost, .accesses = {small.use(ids[1], AccessMode::kRead)}});
  ASSERT_TRUE(small.engine.stuck());
  EXPECT_THAT(small.engine.stuck()->message, testing::HasSubstr("out of memory"));
  small.free(ids[0]);
  EXPECT_FALSE(small.engine.stuck());
  small.finish_all();
  EXPECT_THAT(small.calls(), Contains("ready 4"));
}

TEST_F(Update, MemoryDiesBehindIt) {
  const auto ids = world.written_blocks<3>();
  update({change(ids[0])});
  world.free(ids[0]);
  EXPECT_THAT(world.mechanism.gone, IsEmpty());
  world.end(4);
  EXPECT_THAT(world.mechanism.gone, ElementsAre(ids[0]));
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 0U);
}

// On its way to the device when the update comes: it goes back.
TEST_F(Update, WhatIsOnItsWayUpTurnsRound) {
  const auto ids = world.written_blocks<3>();
  world.free(ids[1]);
  world.prefetch(ids[0]);
  EXPECT_THAT(world.calls(), Contains("prefetch host>device 0"));
  EXPECT_EQ(update({change(ids[0])}).state, LaunchState::kWaiting);
  world.finish_all();
  EXPECT_THAT(world.calls(), Contains("ready 4"));
  world.end(4);
  expect_only_at_host(ids[0]);
}

TEST_F(Update, IsWithdrawnWhileItWaitsForItsAdmission) {
  const auto ids = world.written_blocks<1>();
  world.begin({world.write(ids[0])});  // 2
  EXPECT_EQ(update({change(ids[0])}).state, LaunchState::kWaiting);
  update({world.read(world.allocate(1))});  // 4, behind it
  world.forget();
  world.engine.withdraw(world.launch_ids[2]);
  world.check();
  EXPECT_THAT(world.calls(), UnorderedElementsAre("ready 3", "zero at host 1", "ready 4"));
  world.end(3);
  world.end(2);
  EXPECT_TRUE(world.block(ids[0]).copies.has(Tier::kDevice));
}

TEST_F(Update, IsWithdrawnWhileItsDataComes) {
  const auto ids = world.written_blocks<2>();
  world.pre_evict(ids[0], Tier::kStorage);
  world.finish_all();
  world.run({world.write(world.allocate(2))});  // takes both frames
  world.finish_all();
  update({change(ids[0]), change(ids[1])});
  EXPECT_EQ(world.begin({world.read(ids[0])}).state, LaunchState::kWaiting);
  world.engine.withdraw(world.launch_ids[3]);
  world.check();
  EXPECT_FALSE(world.block(ids[0]).at_host);
  world.end(4);
  world.finish_all();
  EXPECT_THAT(world.calls(), Contains("ready 5"));
  world.end(5);
}

TEST_F(Update, IsWithdrawnWithoutRoom) {
  World small(one_at_a_time(2, 1, 0));
  const auto ids = small.written_blocks<2>();
  small.run({small.write(small.allocate(1))});  // the first block fills host memory
  small.issue({.runs_at = Tier::kHost, .accesses = {small.use(ids[1], AccessMode::kRead)}});
  ASSERT_TRUE(small.engine.stuck());
  small.free(ids[1]);
  small.engine.withdraw(small.launch_ids.back());
  small.check();
  EXPECT_FALSE(small.engine.stuck());
  EXPECT_THAT(small.mechanism.gone, ElementsAre(ids[1]));
  small.end(small.launches);
}

TEST_F(Update, AfterItsReleaseThereIsNothingToWithdraw) {
  const auto ids = world.written_blocks<3>();
  update({change(ids[0])});
  world.engine.withdraw(world.launch_ids.back());
  EXPECT_TRUE(world.block(ids[0]).at_host);
  world.end(4);
}

// Whoever holds a page may write it while it is copied: the copy is none.
TEST(UpdateOfHeldPages, IsCopiedAgain) {
  EngineOptions options = one_at_a_time(2, 4, 0);
  options.tracks_writes = true;
  World world(options);
  const AllocationId id = world.allocate(1);
  const ThreadFault write{.block = 0, .write = true};
  world.engine.thread_faults({}, {&write, 1});
  world.forget();
  world.issue({.runs_at = Tier::kHost, .accesses = {world.use(id, AccessMode::kReadWrite)}});
  EXPECT_THAT(world.calls(), ElementsAre("unmap 0", "evict device>host 0"));
  world.engine.thread_faults({}, {&write, 1});
  world.finish();
  EXPECT_THAT(world.calls(), ElementsAre("drop 0 host", "map 0", "unmap 0", "evict device>host 0"));
  world.finish();
  EXPECT_THAT(world.calls(), Contains("ready 1"));
  world.end(1);
}

TEST_F(Update, PoliciesHearOfItAsNoUseOnTheDevice) {
  const auto ids = world.written_blocks<3>();
  std::vector<UpdateStage> stages;
  world.policy.at_update = [&](UpdateStage stage, const Launch&) { stages.push_back(stage); };
  world.policy.at_issue = [](const Launch&, Control&) { ADD_FAILURE(); };
  world.policy.at_launch_end = [](const Launch&, Control&) { ADD_FAILURE(); };
  update({change(ids[0])});
  world.end(4);
  EXPECT_THAT(stages,
              ElementsAre(UpdateStage::kIssued, UpdateStage::kAdmitted, UpdateStage::kEnded));
}

}  // namespace
}  // namespace spillway
