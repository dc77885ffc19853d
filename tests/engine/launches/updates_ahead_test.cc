// What updates will use that are issued and not admitted: it is read from storage meanwhile. And
// who leaves host memory for updates, and who does not take their room.
#include "engine/engine_world.h"

namespace spillway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Four blocks on the device, four in host memory, sixteen in storage.
class UpdatesAhead : public testing::Test {
 protected:
  explicit UpdatesAhead(const EngineOptions& options = one_at_a_time(4, 4, 16)) : world(options) {}

  LaunchAdmission update(World& of, std::vector<Access> accesses) {
    return of.issue({.runs_at = Tier::kHost, .accesses = std::move(accesses)});
  }
  LaunchAdmission update(std::vector<Access> accesses) {
    return update(world, std::move(accesses));
  }
  [[nodiscard]] static Access change(const World& of, AllocationId id) {
    return of.use(id, AccessMode::kReadWrite);
  }
  [[nodiscard]] Access change(AllocationId id) const { return change(world, id); }
  // Written, and in storage alone.
  static std::vector<AllocationId> stored(World& of, std::size_t count) {
    std::vector<AllocationId> ids = of.allocate_single_blocks(count);
    for (const AllocationId id : ids) {
      of.run({of.write(id)});
      of.pre_evict(id, Tier::kStorage);
      of.finish_all();
      const AllocationId filling = of.allocate(4);
      of.run({of.write(filling)});
      of.free(filling);
    }
    of.forget();
    return ids;
  }
  static long reads_under_way(const World& of) {
    return std::count_if(of.mechanism.under_way.begin(), of.mechanism.under_way.end(),
                         [](const Transfer& transfer) {
                           return transfer.from == Tier::kStorage && transfer.to == Tier::kHost;
                         });
  }

  World world;
};

// Its gradient's kernel still runs.
TEST_F(UpdatesAhead, StatesAreReadWhileTheGradientIsMade) {
  const AllocationId state = stored(world, 1)[0];
  const AllocationId gradient = world.allocate(1);
  world.begin({world.write(gradient)});
  const std::uint64_t kernel = world.launches;
  world.forget();
  EXPECT_EQ(update({world.read(gradient), change(state)}).state, LaunchState::kWaiting);
  EXPECT_THAT(world.calls(), ElementsAre(HasSubstr("prefetch storage>host")));
  EXPECT_FALSE(world.block(state).at_host);
  world.finish();
  EXPECT_TRUE(world.block(state).copies.has(Tier::kHost));
  EXPECT_FALSE(world.block(state).frames.has(Tier::kStorage));
  world.forget();
  world.end(kernel);
  EXPECT_THAT(world.calls(), ElementsAre(HasSubstr("unmap"), HasSubstr("evict device>host")));
  world.finish();
  EXPECT_THAT(world.calls(), Contains(fmt::format("ready {}", world.launches)));
  world.end(world.launches);
}

// The drive has two requests at a time, though the second update cannot begin before the first.
TEST_F(UpdatesAhead, ReadsOverlapInTheOrderOfIssue) {
  EngineOptions options = one_at_a_time(4, 8, 16);
  options.batches_in_flight = 2;
  World wide(options);
  const std::vector<AllocationId> states = stored(wide, 3);
  const AllocationId gradient = wide.allocate(1);
  wide.begin({wide.write(gradient)});
  wide.forget();
  for (const AllocationId state : states) {
    update(wide, {wide.read(gradient), change(wide, state)});
  }
  EXPECT_EQ(reads_under_way(wide), 2);
  EXPECT_TRUE(wide.block(states[0]).transfer != kNoIndex);
  EXPECT_TRUE(wide.block(states[1]).transfer != kNoIndex);
  wide.finish();
  EXPECT_TRUE(wide.block(states[2]).transfer != kNoIndex);
}

TEST_F(UpdatesAhead, AnUpdateThatIsAdmittedMeanwhileTakesWhatComes) {
  const AllocationId state = stored(world, 1)[0];
  const AllocationId gradient = world.allocate(1);
  world.begin({world.write(gradient)});
  const std::uint64_t kernel = world.launches;
  update({change(state), world.read(gradient)});
  world.end(kernel);
  EXPECT_TRUE(world.block(state).at_host);
  EXPECT_EQ(reads_under_way(world), 1);
  world.fail(Cause::kPrefetch);  // and is fetched for it
  EXPECT_THAT(world.calls(), Contains(HasSubstr("fault storage>host")));
  world.finish_all();
  EXPECT_THAT(world.calls(), Contains(fmt::format("ready {}", world.launches)));
  world.end(world.launches);
}

TEST_F(UpdatesAhead, AWithdrawnUpdateWantsNothing) {
  const std::vector<AllocationId> states = stored(world, 2);
  const AllocationId gradient = world.allocate(1);
  world.begin({world.write(gradient)});
  update({world.read(gradient), change(states[0]), change(states[1])});
  EXPECT_EQ(reads_under_way(world), 1);
  world.engine.withdraw(world.launch_ids.back());
  world.check();
  world.forget();
  world.finish();
  EXPECT_THAT(world.calls(), Not(Contains(HasSubstr("storage>host"))));
  world.end(world.launches);
}

// Host memory is full of what has been updated: that leaves, the last one first, and an eighth of
// host memory stays free.
TEST_F(UpdatesAhead, WhatHasBeenUpdatedMakesRoom) {
  const AllocationId state = stored(world, 1)[0];
  const std::vector<AllocationId> updated = world.allocate_single_blocks(4);
  for (const AllocationId id : updated) {
    update({change(id)});
    world.end(world.launches);
  }
  const AllocationId gradient = world.allocate(1);
  world.begin({world.write(gradient)});
  world.forget();
  update({world.read(gradient), change(state)});
  const BlockId last = world.engine.space().allocation(updated[3]).first_block;
  EXPECT_THAT(world.calls(), ElementsAre(fmt::format("pre_evict host>storage {}", last)));
  world.finish();  // there is room for it, but not for what else comes
  world.finish();
  EXPECT_EQ(reads_under_way(world), 1);
  world.finish_all();
  EXPECT_EQ(world.engine.used_bytes(Tier::kHost), 3 * kBlockBytes);
}

// Batches of two blocks: the first has room, the second has not, and what makes room for it is a
// transfer of its own.
TEST_F(UpdatesAhead, RoomIsMadeBetweenBatches) {
  EngineOptions options = one_at_a_time(4, 4, 16);
  options.storage_batch_bytes = 2 * kBlockBytes;
  options.batches_in_flight = 2;
  World wide(options);
  const std::vector<AllocationId> states = stored(wide, 2);
  for (const AllocationId id : wide.allocate_single_blocks(2)) {
    update(wide, {change(wide, id)});
    wide.end(wide.launches);
  }
  const AllocationId gradient = wide.allocate(1);
  wide.begin({wide.write(gradient)});
  wide.forget();
  update(wide, {wide.read(gradient), change(wide, states[0]), change(wide, states[1])});
  EXPECT_THAT(wide.calls(),
              ElementsAre(HasSubstr("prefetch storage>host"), HasSubstr("pre_evict host>storage")));
  wide.finish_all();
  EXPECT_TRUE(wide.block(states[1]).copies.has(Tier::kHost));
}

// Nobody's room but that: what has not been updated stays.
TEST_F(UpdatesAhead, WithoutRoomNothingIsReadAhead) {
  const AllocationId state = stored(world, 1)[0];
  const std::vector<AllocationId> others = world.allocate_single_blocks(4);
  for (const AllocationId id : others) {
    world.run({world.write(id)});
    world.pre_evict(id);
    world.finish_all();
  }
  const AllocationId filling = world.allocate(3);
  world.run({world.write(filling)});
  const AllocationId gradient = world.allocate(1);
  world.begin({world.write(gradient)});
  world.forget();
  update({world.read(gradient), change(state)});
  EXPECT_THAT(world.calls(), IsEmpty());
}

// The last one cannot leave now, as it is being updated: it is the first all the same when it can.
TEST_F(UpdatesAhead, WhoCannotLeaveKeepsItsPlace) {
  const std::vector<AllocationId> states = world.allocate_single_blocks(6);
  const auto first = [&](std::size_t i) {
    return world.engine.space().allocation(states[i]).first_block;
  };
  for (std::size_t i = 0; i < 4; ++i) {
    update({change(states[i])});
    world.end(world.launches);
  }
  update({change(states[3])});
  const std::uint64_t again = world.launches;
  world.forget();
  update({change(states[4])});
  EXPECT_THAT(world.calls(), ElementsAre(fmt::format("pre_evict host>storage {}", first(2))));
  world.finish_all();
  world.engine.withdraw(world.launch_ids.at(again - 1));  // too late
  world.end(again);
  world.forget();
  update({change(states[5])});
  EXPECT_THAT(world.calls(), ElementsAre(fmt::format("pre_evict host>storage {}", first(3))));
}

// Room for one half of a large block is there, and what leaves the device would take it as often as
// the other half is made.
TEST_F(UpdatesAhead, WhatLeavesTheDeviceDoesNotTakeAnUpdatesRoom) {
  World narrow(one_at_a_time(2, 2, 16));
  const AllocationId large = narrow.engine.allocate(2 * kBlockBytes, 0, 2 * kBlockBytes).value();
  narrow.run({narrow.write(large)});
  narrow.pre_evict(large, Tier::kStorage);
  narrow.finish_all();
  const std::vector<AllocationId> small = narrow.allocate_single_blocks(4);
  narrow.run({narrow.write(small[0])});
  narrow.pre_evict(small[0]);
  narrow.finish_all();
  narrow.run({narrow.write(small[1])});
  narrow.run({narrow.write(small[2])});
  narrow.forget();
  update(narrow, {change(narrow, large)});
  const std::uint64_t waits = narrow.launches;
  narrow.begin({narrow.write(small[3])});
  EXPECT_THAT(narrow.calls(), Contains(HasSubstr("evict device>storage")));
  narrow.finish_all();
  EXPECT_THAT(narrow.calls(), Contains(fmt::format("ready {}", waits)));
  narrow.end(waits);
  narrow.end(narrow.launches);
}

}  // namespace
}  // namespace spillway
