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
  EXPECT_EQ(update({world.read(world.allocate(1))}).state, LaunchState::kReady);  // 4
  world.forget();
  world.engine.withdraw(world.launch_ids[2]);
  world.check();
  EXPECT_THAT(world.calls(), ElementsAre("ready 3"));
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

// --- In which order ------------------------------------------------------------------------------

// A program issues far ahead of its device: what stands before the update on its stream need not
// have been admitted.
TEST_F(Update, DoesNotWaitForLaunchesOfItsStreamThatUseOtherData) {
  const auto ids = world.written_blocks<3>();  // the first has left for host memory
  world.begin({world.write(ids[1])}, 0);       // 4
  EXPECT_EQ(world.begin({world.write(ids[2]), world.write(world.allocate(1))}, 0).state,
            LaunchState::kWaiting);  // three blocks at once
  EXPECT_EQ(update({change(ids[0])}, 0).state, LaunchState::kReady);
}

TEST_F(Update, WaitsForALaunchBeforeItThatIsNotAdmittedYet) {
  const auto ids = world.written_blocks<3>();
  world.begin({world.write(ids[1])}, 0);                                  // 4
  world.begin({world.write(ids[0]), world.write(world.allocate(1))}, 0);  // 5
  EXPECT_EQ(update({change(ids[0])}, 1).state, LaunchState::kWaiting);    // 6
  EXPECT_FALSE(world.block(ids[0]).at_host);
  world.end(4);
  world.finish_all();
  EXPECT_FALSE(world.block(ids[0]).at_host);
  world.end(5);
  EXPECT_TRUE(world.block(ids[0]).at_host);
  world.finish_all();
  EXPECT_THAT(world.calls(), Contains("ready 6"));
  world.end(6);
}

// Two gradients of a backward pass: the one that is written last belongs to the first update.
TEST_F(Update, DoesNotWaitForAnotherWhoseDataIsNotThere) {
  const auto ids = world.written_blocks<3>();
  world.begin({world.write(ids[1])}, 0);                                         // 4
  EXPECT_EQ(update({change(ids[1])}, 0).state, LaunchState::kWaiting);           // 5
  EXPECT_EQ(update({change(ids[0])}, 0).state, LaunchState::kReady);             // 6
  EXPECT_EQ(world.begin({world.read(ids[1])}, 1).state, LaunchState::kWaiting);  // 7
  world.end(6);
  world.forget();
  world.end(4);
  EXPECT_THAT(world.calls(), Contains("evict device>host 1"));
  world.finish();
  EXPECT_THAT(world.calls(), Contains("ready 5"));
  world.end(5);
  world.finish_all();
  EXPECT_THAT(world.calls(), Contains("ready 7"));
  world.end(7);
}

// Of a block that several tensors share.
TEST_F(Update, OnlyThoseOfTheSameBytesWaitForEachOther) {
  const auto ids = world.written_blocks<3>();
  const auto bytes = [&](Bytes from, Bytes to, AccessMode mode) {
    Access access = world.use(ids[0], mode);
    access.from_bytes = from;
    access.to_bytes = to;
    return access;
  };
  EXPECT_EQ(update({bytes(0, 512, AccessMode::kReadWrite)}).state, LaunchState::kReady);     // 4
  EXPECT_EQ(update({bytes(512, 1024, AccessMode::kReadWrite)}).state, LaunchState::kReady);  // 5
  EXPECT_EQ(update({bytes(0, 1024, AccessMode::kRead)}).state, LaunchState::kWaiting);       // 6
  EXPECT_EQ(update({bytes(600, 700, AccessMode::kRead)}).state, LaunchState::kWaiting);      // 7
  EXPECT_EQ(update({bytes(1024, 2048, AccessMode::kRead)}).state, LaunchState::kReady);      // 8
  world.forget();
  world.end(5);
  EXPECT_THAT(world.calls(), ElementsAre("ready 7"));
  world.end(4);
  EXPECT_THAT(world.calls(), ElementsAre("ready 6"));
  world.end(6);
  world.end(7);
  world.end(8);
}

TEST_F(Update, AWithdrawnOneIsInNobodysWay) {
  const auto ids = world.written_blocks<3>();
  world.begin({world.write(ids[1])}, 0);                             // 4
  update({change(ids[1]), change(ids[0])});                          // 5
  EXPECT_EQ(update({change(ids[0])}).state, LaunchState::kWaiting);  // 6
  world.forget();
  world.engine.withdraw(world.launch_ids[4]);
  world.check();
  EXPECT_THAT(world.calls(), UnorderedElementsAre("ready 5", "ready 6"));
  world.end(5);
  world.end(6);
  world.end(4);
}

// --- Where nobody can withdraw it ----------------------------------------------------------------

EngineOptions certain(Bytes device, Bytes host, Bytes storage) {
  EngineOptions options = one_at_a_time(device, host, storage);
  options.updates_are_certain = true;
  return options;
}

TEST(CertainUpdate, ItsRoomIsNobodyElses) {
  World world(certain(2, 1, 0));
  const auto ids = world.written_blocks<2>();
  const auto change = [&](AllocationId id) { return world.use(id, AccessMode::kReadWrite); };
  world.begin({world.write(ids[0])}, 0);  // 3
  const AllocationId more = world.allocate(1);
  EXPECT_EQ(world.issue({.runs_at = Tier::kHost, .accesses = {change(ids[0])}}).state,
            LaunchState::kWaiting);  // 4
  EXPECT_EQ(world.engine.kept_for_updates_bytes(), kBlockBytes);
  EXPECT_EQ(world.engine.free_bytes(Tier::kHost), 0U);
  world.forget();
  EXPECT_EQ(world.begin({world.write(more)}, 0).state, LaunchState::kWaiting);  // 5
  EXPECT_THAT(world.calls(), IsEmpty()) << "the other block has nowhere to go";
  world.end(3);
  EXPECT_THAT(world.calls(), ElementsAre("unmap 0", "evict device>host 0"));
  EXPECT_EQ(world.engine.kept_for_updates_bytes(), 0U);
  world.finish_all();
  EXPECT_THAT(world.calls(), testing::IsSupersetOf({"ready 4", "ready 5"}));
  world.end(5);
  world.end(4);
}

TEST(CertainUpdate, IsRefusedWhereHostMemoryHasNoRoomForIt) {
  World world(certain(2, 1, 4));
  const auto ids = world.written_blocks<3>();  // the first fills host memory
  world.finish_all();
  const Launch update{.runs_at = Tier::kHost,
                      .accesses = {world.use(ids[1], AccessMode::kReadWrite)}};
  EXPECT_EQ(world.engine.issue_launch(update).state, LaunchState::kTooLarge);
  world.forget();
  world.engine.make_room_for_updates(world.engine.more_kept_bytes(update));
  EXPECT_THAT(world.calls(), ElementsAre("pre_evict host>storage 0"));
  world.finish_all();
  EXPECT_EQ(world.issue(update).state, LaunchState::kWaiting);
  world.finish_all();
  EXPECT_THAT(world.calls(), Contains("ready 4"));
  world.end(4);
}

// A copy that is spare counts as free, and what room is kept for another's the device loses it to.
TEST(CertainUpdate, AnotherMayNotLeaveForACopyInItsRoom) {
  EngineOptions options = certain(2, 1, 0);
  options.clean_copies = CleanCopies::kAll;
  World world(options);
  const auto ids = world.written_blocks<2>();
  world.engine.send_to_host({.accesses = {world.use(ids[1], AccessMode::kRead)}});
  world.finish_all();
  EXPECT_TRUE(world.block(ids[1]).spare.has(Tier::kHost));
  world.begin({world.write(ids[0])}, 0);  // 3
  world.issue({.runs_at = Tier::kHost, .accesses = {world.use(ids[0], AccessMode::kReadWrite)}});
  EXPECT_EQ(world.begin({world.write(world.allocate(1))}, 0).state, LaunchState::kWaiting);  // 5
  EXPECT_TRUE(world.block(ids[1]).frames.has(Tier::kDevice));
  world.end(3);
  world.finish_all();
  EXPECT_THAT(world.calls(), testing::IsSupersetOf({"ready 4", "ready 5"}));
  EXPECT_TRUE(world.block(ids[1]).copies.has(Tier::kDevice));
  world.end(5);
  world.end(4);
}

TEST(GradientThatIsFinal, GoesDownBehindWhatWritesIt) {
  EngineOptions options = one_at_a_time(2, 4, 0);
  options.clean_copies = CleanCopies::kAll;
  World world(options);
  const auto ids = world.written_blocks<2>();
  world.begin({world.write(ids[0])}, 0);  // 3
  world.begin({world.write(ids[0])}, 0);  // 4
  world.forget();
  world.engine.send_to_host({.accesses = {world.use(ids[0], AccessMode::kRead)}});
  world.end(3);
  EXPECT_THAT(world.calls(), testing::Not(Contains("pre_evict device>host 0")));
  world.end(4);
  EXPECT_THAT(world.calls(), Contains("pre_evict device>host 0"));
  world.finish_all();
  EXPECT_TRUE(world.block(ids[0]).mapped);
  world.forget();
  EXPECT_EQ(
      world.issue({.runs_at = Tier::kHost, .accesses = {world.use(ids[0], AccessMode::kRead)}})
          .state,
      LaunchState::kReady)
      << "nothing need be copied any more";
  world.end(5);
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
