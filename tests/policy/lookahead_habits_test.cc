// Lookahead tells each of its habits what it has to know, and asks them in their order.
#include "policy/asking_world.h"
#include "policy/lookahead.h"

namespace spillway {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;

class LookaheadHabits : public ::testing::Test {
 protected:
  enum : ExecutionId { kMakes, kUses, kOfOthers, kMoved };
  enum : std::uint64_t { kNoKind, kCode, kOtherCode };

  LookaheadHabits() { run(kOfOthers, {world.write(rest)}); }
  void run(ExecutionId kernel, std::vector<Access> accesses, std::uint64_t code = kNoKind) {
    world.issue({.execution = kernel, .kind = code, .accesses = std::move(accesses)});
    world.finish_all();
    world.end(world.launches);
  }
  // Something has to leave.
  void press() {
    run(kMakes, {world.overwrite(a)});
    const AllocationId more = world.allocate(2);
    run(kOfOthers, {world.write(more)});
    world.free(more);
    world.discard(a, DiscardMode::kLazy);
  }
  void others_need_room() {
    const AllocationId more = world.allocate(20);
    run(kOfOthers, {world.write(more)});
    world.free(more);
  }
  // Behind this one.
  void rest_has_to_leave() {
    run(kMakes, {world.write(rest)}, kCode);
    others_need_room();
    world.forget();
  }
  // What happens behind a write that is not followed by any need.
  std::vector<std::string> behind_write(ExecutionId kernel, std::uint64_t code) {
    run(kernel, {world.write(rest)}, code);
    world.forget();
    run(kOfOthers, {});
    return world.calls();
  }
  // Used for the last time, and dead long after.
  void linger() {
    run(kMakes, {world.overwrite(a)});
    world.forget();
    run(kUses, {world.read(a)});
    for (int i = 0; i < 300; ++i) {
      run(kOfOthers, {});
    }
    world.discard(a, DiscardMode::kLazy);
  }

  Lookahead lookahead;
  AskingWorld world{one_at_a_time(64, 128, 0), lookahead};
  AllocationId a = world.allocate(16);
  AllocationId rest = world.allocate(48);  // of the device
};

TEST_F(LookaheadHabits, WhatOnlyLingersIsSentAwayOnceSomethingHasHadToLeave) {
  press();
  linger();
  EXPECT_THAT(world.calls(), Not(Contains(StartsWith("pre_evict"))));
  linger();
  linger();
  EXPECT_THAT(world.calls(), Contains(StartsWith("pre_evict device>host")));
}

TEST_F(LookaheadHabits, NothingIsSentAwayWhereNothingEverHadTo) {
  for (int i = 0; i < 4; ++i) {
    linger();
    EXPECT_THAT(world.calls(), Not(Contains(StartsWith("pre_evict")))) << i;
  }
}

TEST_F(LookaheadHabits, WhatHadToLeaveIsCopiedAheadBehindTheSameCodeElsewhere) {
  ASSERT_TRUE(lookahead.wants_kinds());
  press();  // before that nobody listens
  rest_has_to_leave();
  EXPECT_THAT(behind_write(kMoved, kCode), Contains(StartsWith("pre_evict device>host")));
}

// Each time elsewhere, and never again anybody's room.
TEST_F(LookaheadHabits, CopiesBehindTheSameCodeEndWhenTheyAreInVain) {
  press();
  rest_has_to_leave();
  int copied = 0;
  for (ExecutionId kernel = kMoved; kernel < kMoved + 10; ++kernel) {
    const std::vector<std::string> calls = behind_write(kernel, kCode);
    copied += testing::Value(calls, Contains(StartsWith("pre_evict"))) ? 1 : 0;
  }
  EXPECT_EQ(copied, 2);
}

TEST_F(LookaheadHabits, ButNotBehindOtherCode) {
  press();
  rest_has_to_leave();
  EXPECT_THAT(behind_write(kMoved, kOtherCode), Not(Contains(StartsWith("pre_evict"))));
}

TEST_F(LookaheadHabits, NorBehindTheSameCodeWhereNothingCameOfThat) {
  press();
  run(kMoved, {world.write(rest)}, kCode);
  rest_has_to_leave();
  EXPECT_THAT(behind_write(kMoved, kCode), Not(Contains(StartsWith("pre_evict"))));
}

TEST_F(LookaheadHabits, WhatCanBeMadeAgainLeavesFirstAndNothingElseWithoutACopy) {
  press();
  run(kMakes, {world.overwrite(a)});
  run(kUses, {world.read(a)});
  EXPECT_EQ(lookahead.select_clean_victim(Cause::kFault, *world.seen), std::nullopt);
  world.engine.set_recomputable(a, true);
  const BlockId first = world.engine.space().allocation(a).first_block;
  EXPECT_EQ(lookahead.select_clean_victim(Cause::kFault, *world.seen), first);
  EXPECT_EQ(lookahead.select_victim(Cause::kFault, kNoBlock, *world.seen), first);
}

}  // namespace
}  // namespace spillway
