// Blocks that are read in turn while another stream uses them as well, or something else beside
// them.
#include <deque>

#include "engine/launches/pending_uses.h"
#include "engine/memory/page_queues.h"
#include "policy/asking_world.h"
#include "policy/habits/read_in_turn.h"
#include "policy/lookahead.h"

namespace spillway {
namespace {

using Ids = std::vector<AllocationId>;
using Accesses = std::vector<Access>;

// Of two that may be chosen the second is wanted later; launches of both streams name them.
class ReadInTurnOnTwoStreams : public ::testing::Test {
 protected:
  enum : StreamId { kOne = 1, kOther };

  ReadInTurnOnTwoStreams() {
    world.policy.at_issue = [&](const Launch& launch, Control& control) {
      in_turn.issued(launch, control);
    };
    world.policy.at_launch_end = [&](const Launch& launch, Control& control) {
      seen = &control;
      in_turn.ended(launch, control);
    };
    world.policy.admitted_at_once.launches_per_stream = 1;
    for (const AllocationId id : {oldest, sooner, later}) {
      world.run({world.write(id)});
    }
    for (const AllocationId id : {sooner, later}) {
      seen->copy_down(first_of(id), Tier::kHost);
    }
    world.run({});
    world.finish_all();
    for (int round = 0; round < 2; ++round) {
      world.run({world.read(sooner)});
      world.run({world.read(later)});
    }
    EXPECT_EQ(chosen(), first_of(later));
  }
  [[nodiscard]] BlockId first_of(AllocationId id) const {
    return world.engine.space().allocation(id).first_block;
  }
  BlockId chosen() { return in_turn.instead_of(first_of(oldest), 0, *seen); }
  std::uint64_t begin(StreamId stream, Accesses accesses) {
    world.begin(std::move(accesses), stream);
    return world.launches;
  }

  spillway::World world{keeping_clean_copies(64, 256)};
  ReadInTurn in_turn;
  Control* seen = nullptr;
  AllocationId oldest = world.allocate(1);
  AllocationId sooner = world.allocate(1);
  AllocationId later = world.allocate(1);
};

TEST_F(ReadInTurnOnTwoStreams, WhatALaunchNamesThatStandsBehindOthersStays) {
  const std::uint64_t before = begin(kOther, {});
  const std::uint64_t other = begin(kOther, {world.read(later)});
  ASSERT_EQ(world.block(later).pins, 0U);
  EXPECT_EQ(chosen(), first_of(sooner));
  world.end(begin(kOne, {}));
  EXPECT_EQ(chosen(), first_of(sooner));
  world.end(before);
  ASSERT_EQ(world.block(later).pins, 1U);
  EXPECT_EQ(chosen(), first_of(sooner));
  world.end(other);
  EXPECT_EQ(chosen(), first_of(later));
}

TEST_F(ReadInTurnOnTwoStreams, WhatBothUseStaysUntilBothHaveEnded) {
  const std::uint64_t one = begin(kOne, {world.read(later)});
  const std::uint64_t other = begin(kOther, {world.read(later)});
  ASSERT_EQ(world.block(later).pins, 2U);
  EXPECT_EQ(chosen(), first_of(sooner));
  world.end(one);
  ASSERT_EQ(world.block(later).pins, 1U);
  EXPECT_EQ(chosen(), first_of(sooner));
  world.end(other);
  EXPECT_EQ(chosen(), first_of(later));
}

TEST_F(ReadInTurnOnTwoStreams, AndWhereTheOneThatWasIssuedFirstEndsLast) {
  const std::uint64_t one = begin(kOne, {world.read(later)});
  const std::uint64_t other = begin(kOther, {world.read(later)});
  world.end(other);
  EXPECT_EQ(chosen(), first_of(sooner));
  world.end(one);
  EXPECT_EQ(chosen(), first_of(later));
}

TEST_F(ReadInTurnOnTwoStreams, WhatOneHasUsedStaysWhereALaunchOfTheOtherStillWaits) {
  const std::uint64_t before = begin(kOther, {});
  const std::uint64_t one = begin(kOne, {world.read(later)});
  const std::uint64_t other = begin(kOther, {world.read(later)});
  world.end(one);
  ASSERT_EQ(world.block(later).pins, 0U);
  EXPECT_EQ(chosen(), first_of(sooner));
  world.end(before);
  EXPECT_EQ(chosen(), first_of(sooner));
  world.end(other);
  EXPECT_EQ(chosen(), first_of(later));
}

TEST_F(ReadInTurnOnTwoStreams, AndIsFoundAgainWhereThatOneWasIssuedFirst) {
  const std::uint64_t before = begin(kOne, {});
  const std::uint64_t one = begin(kOne, {world.read(later)});
  const std::uint64_t other = begin(kOther, {world.read(later)});
  world.end(other);
  ASSERT_EQ(world.block(later).pins, 0U);
  EXPECT_EQ(chosen(), first_of(sooner));
  world.end(before);
  EXPECT_EQ(chosen(), first_of(sooner));
  world.end(one);
  EXPECT_EQ(chosen(), first_of(later));
}

TEST_F(ReadInTurnOnTwoStreams, WhatIsNotUsedWhenItIsExpectedStaysAsWellWhileALaunchUsesIt) {
  const Accesses both{world.read(sooner), world.read(later)};
  const std::uint64_t one = begin(kOne, both);
  const std::uint64_t other = begin(kOther, both);
  world.end(one);
  for (int i = 0; i < 20; ++i) {
    world.run({});
  }
  EXPECT_EQ(chosen(), kNoBlock);
  world.end(other);
  EXPECT_NE(chosen(), kNoBlock);
}

// The same weights again and again on one stream, beside what another one does.
struct Beside {
  std::string name;
  Accesses (*round)(const AskingWorld& world, const Ids& weights, const Ids& others, int number);
  std::size_t weights = 64;  // twice as much as there is room for
  Bytes percent = 80;        // of what is moved by age, at most
};

Accesses reads(const AskingWorld& world, const Ids& ids) {
  Accesses made;
  for (const AllocationId id : ids) {
    made.push_back(world.read(id));
  }
  return made;
}

Accesses few_others(const AskingWorld& world, const Ids& /*weights*/, const Ids& others,
                    int /*number*/) {
  Accesses made;
  for (std::size_t i = 0; i < 32; ++i) {
    made.push_back(world.read(others[i % 4]));
  }
  return made;
}

Accesses many_others(const AskingWorld& world, const Ids& /*weights*/, const Ids& others,
                     int /*number*/) {
  return reads(world, others);
}

Accesses the_same(const AskingWorld& world, const Ids& weights, const Ids& /*others*/,
                  int /*number*/) {
  return reads(world, weights);
}

Accesses two_sets_by_turns(const AskingWorld& world, const Ids& /*weights*/, const Ids& others,
                           int number) {
  const auto half = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  return reads(world, number / 3 % 2 == 0 ? Ids(others.begin(), half) : Ids(half, others.end()));
}

Accesses to_and_fro(const AskingWorld& world, const Ids& /*weights*/, const Ids& others,
                    int /*number*/) {
  Accesses made;
  for (const AllocationId id : others) {
    made.push_back(world.overwrite(id));
  }
  std::for_each(others.rbegin(), others.rend(),
                [&](AllocationId id) { made.push_back(world.read(id)); });
  return made;
}

class ReadInTurnBeside : public ::testing::TestWithParam<Beside> {
 protected:
  struct Stream {
    Accesses accesses;  // of a launch each
    std::size_t issued = 0;
    std::size_t ended = 0;
  };

  // Each stream has some launches issued that have not ended.
  static void run(AskingWorld& world, std::array<Stream, 2> streams) {
    constexpr std::size_t kIssued = 6;
    const std::uint64_t before = world.launches;
    std::vector<Stream*> stream_of;
    std::deque<std::uint64_t> released;
    world.forget();
    do {
      for (Stream& stream : streams) {
        while (stream.issued < stream.accesses.size() && stream.issued < stream.ended + kIssued) {
          stream_of.push_back(&stream);
          world.begin({stream.accesses[stream.issued++]},
                      static_cast<StreamId>(&stream - streams.data()));
        }
      }
      if (!world.mechanism.under_way.empty()) {
        world.finish();
      }
      for (const std::string& call : world.calls()) {
        if (call.rfind("ready ", 0) == 0) {
          released.push_back(std::stoull(call.substr(6)));
        }
      }
      if (!released.empty()) {
        ++stream_of[released.front() - before - 1]->ended;
        world.end(released.front());
        released.pop_front();
      }
    } while (std::any_of(streams.begin(), streams.end(), [](const Stream& stream) {
      return stream.ended < stream.accesses.size();
    }));
    world.finish_all();
  }
  static Ids overwritten(AskingWorld& world, std::size_t count) {
    Ids ids(count);
    for (AllocationId& id : ids) {
      id = world.allocate(2);
      world.run({world.overwrite(id)});
    }
    return ids;
  }
  // Both ways, in the last rounds.
  static Bytes moved_bytes(AskingWorld& world) {
    constexpr int kRounds = 16;
    constexpr int kNotCounted = 10;
    const Ids weights = overwritten(world, GetParam().weights);
    const Ids others = overwritten(world, 20);
    const auto moved = [&] {
      return world.stats().moved(Tier::kHost, Tier::kDevice) +
             world.stats().moved(Tier::kDevice, Tier::kHost);
    };
    Bytes before = 0;
    for (int number = 0; number < kRounds; ++number) {
      before = number == kNotCounted ? moved() : before;
      run(world, {Stream{reads(world, weights)},
                  Stream{GetParam().round(world, weights, others, number)}});
    }
    return moved() - before;
  }

  Lookahead lookahead;
  AskingWorld world{keeping_clean_copies(64, 256), lookahead};
};

const auto name_of_beside = [](const auto& at) { return at.param.name; };
INSTANTIATE_TEST_SUITE_P(OnTheOtherStream, ReadInTurnBeside,
                         ::testing::Values(Beside{"FewWeights", few_others},
                                           Beside{"OtherWeights", many_others},
                                           Beside{"TheSameWeights", the_same},
                                           Beside{"TwoSetsByTurns", two_sets_by_turns},
                                           Beside{"ToAndFro", to_and_fro}),
                         name_of_beside);

class MovedBesideOthers : public ReadInTurnBeside {};

INSTANTIATE_TEST_SUITE_P(
    OnTheOtherStream, MovedBesideOthers,
    ::testing::Values(Beside{"FewWeights", few_others}, Beside{"OtherWeights", many_others, 64, 90},
                      Beside{"TwoSetsByTurnsThatFit", two_sets_by_turns, 20, 125},
                      Beside{"ToAndFro", to_and_fro}),
    name_of_beside);

TEST_P(MovedBesideOthers, NoMoreThanByAge) {
  Lookahead by_age_only;
  AskingWorld by_age(keeping_clean_copies(64, 256), by_age_only);
  by_age.policy.victim = [&](Cause /*cause*/) -> std::optional<BlockId> {
    const BlockId id = by_age.seen->queues().oldest_unclaimed();
    return id != kNoBlock ? std::optional(id) : std::nullopt;
  };
  EXPECT_LE(moved_bytes(world) * 100, moved_bytes(by_age) * GetParam().percent);
}

TEST_P(ReadInTurnBeside, NothingLeavesThatAnIssuedLaunchNamesWhereOthersCould) {
  int choices = 0;
  int named = 0;
  world.policy.victim = [&, ask = world.policy.victim](Cause cause) {
    const bool others_could = world.seen->queues().oldest_unclaimed() != kNoBlock;
    const std::optional<BlockId> victim = ask(cause);
    if (victim && others_could) {
      ++choices;
      named += world.seen->pending_uses().next_launch(*victim) != kNoLaunch ||
                       world.seen->space().block(*victim).pins > 0
                   ? 1
                   : 0;
    }
    return victim;
  };
  (void)moved_bytes(world);
  EXPECT_EQ(named, 0);
  EXPECT_GT(choices, 500);
}

}  // namespace
}  // namespace spillway
