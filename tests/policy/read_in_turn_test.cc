// Which block leaves instead of the oldest: what has just come, where blocks are read in turn.
#include "policy/read_in_turn.h"

#include "engine/engine_world.h"
#include "policy/lookahead.h"

namespace spillway {
namespace {

// Each weight a launch of its own, that is issued when the one before it has ended.
class ReadInTurnTest : public ::testing::Test {
 protected:
  ReadInTurnTest() {
    world.policy.at_issue = [&](const Launch& launch, Control& control) {
      seen = &control;
      lookahead.on_issue(launch, control);
    };
    world.policy.at_launch = [&](const Launch& launch, Control& control) {
      lookahead.on_launch(launch, control);
    };
    world.policy.at_launch_end = [&](const Launch& launch, Control& control) {
      lookahead.on_launch_end(launch, control);
    };
    world.policy.victim = [&](Cause cause) {
      return lookahead.select_victim(cause, kNoBlock, *seen);
    };
  }
  static EngineOptions keeps_clean_copies() {
    EngineOptions options = one_at_a_time(kDevice, 256, 0);
    options.clean_copies = CleanCopies::kAll;
    return options;
  }
  std::vector<AllocationId> weights(std::size_t count) {
    std::vector<AllocationId> ids(count);
    for (AllocationId& id : ids) {
      id = world.allocate(kWeight);
      world.run({world.overwrite(id)});
    }
    return ids;
  }
  // How many blocks come for it.
  long read(const std::vector<AllocationId>& ids, bool written = false) {
    world.forget();
    for (const AllocationId id : ids) {
      world.run({written ? world.write(id) : world.read(id)});
    }
    const std::vector<std::string> calls = world.calls();
    return std::count_if(calls.begin(), calls.end(), [](const std::string& call) {
      return call.find("host>device") != std::string::npos;
    });
  }
  long after_rounds(int rounds, const std::vector<AllocationId>& ids, bool written = false) {
    for (int i = 0; i < rounds; ++i) {
      read(ids, written);
    }
    return read(ids, written);
  }

  static constexpr std::uint64_t kDevice = 64;
  static constexpr std::uint64_t kWeight = 8;
  spillway::World world{keeps_clean_copies()};
  Lookahead lookahead;
  Control* seen = nullptr;
};

// By age all of it would leave, each time.
TEST_F(ReadInTurnTest, AsMuchAsThereIsRoomForStays) {
  const auto all = weights(16);
  EXPECT_EQ(read(all), 128);
  EXPECT_LE(after_rounds(4, all), 72);
}

// It would have to be copied out for that.
TEST_F(ReadInTurnTest, NotOfWhatIsWritten) { EXPECT_EQ(after_rounds(5, weights(16), true), 128); }

// A backward pass wants first what has just been used.
TEST_F(ReadInTurnTest, ToAndFroGoesByAge) {
  auto all = weights(16);
  long came = 0;
  for (int i = 0; i < 10; ++i) {
    came = read(all);
    std::reverse(all.begin(), all.end());
  }
  EXPECT_LE(came, 64);
}

// Each fits, and looks as if it were read in turn when the program comes back to it.
TEST_F(ReadInTurnTest, WhoTurnsToSomethingElseForAWhileIsLeftAlone) {
  const auto one = weights(6);
  const auto other = weights(6);
  long came = 0;
  for (int phase = 0; phase < 24; ++phase) {
    came = phase < 20 ? 0 : came;
    for (int i = 0; i < 6; ++i) {
      came += read(phase % 2 == 0 ? one : other);
    }
  }
  EXPECT_LE(came, 4 * 48 * 5 / 4);  // of the last four phases; by age 48 each
}

class ReadInTurnAlone : public ReadInTurnTest {
 protected:
  ReadInTurnAlone() {
    world.policy.at_launch_end = [&](const Launch& launch, Control& control) {
      seen = &control;
      in_turn.ended(launch, control);
    };
    world.policy.at_launch = nullptr;
    world.policy.at_issue = nullptr;
  }
  [[nodiscard]] BlockId first_of(AllocationId id) const {
    return world.engine.space().allocation(id).first_block;
  }
  ReadInTurn in_turn;
};

TEST_F(ReadInTurnAlone, OnlyWhatIsSafeBelowKnownToReturnAndWantedLater) {
  const AllocationId oldest = world.allocate(1);
  const AllocationId newest = world.allocate(1);
  world.run({world.write(oldest)});
  world.run({world.write(newest)});
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 0, *seen), kNoBlock);  // used once
  world.run({world.read(newest)});
  world.run({world.read(oldest)});
  world.run({world.read(newest)});
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 0, *seen), kNoBlock);  // it is nowhere else
  seen->copy_down(first_of(newest), Tier::kHost);
  world.run({});
  world.finish_all();
  // Launches 2, 3 and 5 used it: it is expected with launch 6.
  EXPECT_EQ(in_turn.instead_of(first_of(newest), 5, *seen), kNoBlock);  // instead of itself
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 6, *seen), kNoBlock);
  EXPECT_EQ(in_turn.instead_of(first_of(oldest), 5, *seen), first_of(newest));
}

}  // namespace
}  // namespace spillway
