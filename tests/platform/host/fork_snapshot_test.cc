// What children are served: the bytes of the moment of the fork, from wherever they lay, and for as
// long as they may ask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <latch>
#include <memory>
#include <thread>

#include "platform/common/process/clock.h"
#include "platform/host/fork_world.h"

namespace spillway::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ForkSnapshotTest : public ::testing::TestWithParam<Tier> {
 protected:
  void SetUp() override {
    const UserfaultSupport support = userfault_support();
    if (!support.write_protection || !support.fork_events) {
      GTEST_SKIP() << "no fork events; " << support.reason;
    }
    world_ = std::make_unique<ForkWorld>();
  }
  // Children that have ended are looked for from time to time.
  bool place_becomes_free(Tier tier) {
    for (int i = 0; i < 200 && !world_->place_is_free(tier); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return world_->place_is_free(tier);
  }
  // All places of the tier are taken, but for those that the world has made.
  void use_up(Tier tier) {
    for (BlockId block = 500; world_->places.take(block, tier, kBlockBytes); ++block) {
    }
  }

  std::unique_ptr<ForkWorld> world_;
};

TEST_P(ForkSnapshotTest, AChildSeesTheBytesOfItsMomentAndWritesItsOwn) {
  const BlockId whole = world_->make_block(GetParam(), 5);
  const BlockId small = world_->make_block(GetParam(), 6, 12 * kKiB);
  const pid_t child = world_->fork([&] {
    if (!world_->holds(whole, 5) || !world_->holds(small, 6, 12 * kKiB)) return false;
    std::fill_n(world_->start(whole), kBlockBytes, char{7});
    return world_->holds(whole, 7);
  });
  EXPECT_EQ(ForkWorld::status_of(child), 0);
  EXPECT_THAT(world_->failures(), IsEmpty());
}

// Where nothing lived, and where it was dead, there are zeros.
TEST_P(ForkSnapshotTest, AChildSeesZerosWhereNothingLives) {
  const BlockId dead = world_->make_block(GetParam(), 5);
  world_->block(dead).contents = Contents::kDiscarded;
  const BlockId live = world_->make_block(GetParam(), 6);
  const pid_t child =
      world_->fork([&] { return world_->holds(dead, 0) && world_->holds(live, 6); });
  EXPECT_EQ(ForkWorld::status_of(child), 0);
}

// Nobody else gets the place while the child lives, however long that is; then it is free.
TEST_P(ForkSnapshotTest, PlacesAreKeptWhileTheChildLives) {
  const BlockId block = world_->make_block(GetParam(), 5);
  use_up(GetParam());
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = world_->fork([&] {
    char end = 0;
    ::close(pipe[1]);
    return ::read(pipe[0], &end, 1) == 0 && world_->holds(block, 5);
  });
  world_->give_up(block, GetParam());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(world_->place_is_free(GetParam()));
  ::close(pipe[1]);
  ::close(pipe[0]);
  EXPECT_EQ(ForkWorld::status_of(child), 0);
  EXPECT_TRUE(place_becomes_free(GetParam()));
}

TEST_P(ForkSnapshotTest, AForkThatFailsKeepsNothing) {
  const BlockId block = world_->make_block(GetParam(), 5);
  use_up(GetParam());
  world_->try_to_fork();
  world_->give_up(block, GetParam());
  EXPECT_TRUE(world_->place_is_free(GetParam()));
}

// The grandchild outlives its parent.
TEST_P(ForkSnapshotTest, GrandchildrenSeeWhatTheirParentSaw) {
  const BlockId block = world_->make_block(GetParam(), 5);
  use_up(GetParam());
  std::array<int, 2> result{};
  ASSERT_EQ(::pipe(result.data()), 0);
  const pid_t child = world_->fork([&] {
    const pid_t grandchild = fork_now();
    if (grandchild == 0) {
      ::usleep(100'000);
      const char right = world_->holds(block, 5) ? 'y' : 'n';
      ::_exit(::write(result[1], &right, 1) == 1 ? 0 : 1);
    }
    return grandchild > 0;
  });
  EXPECT_EQ(ForkWorld::status_of(child), 0);
  world_->give_up(block, GetParam());
  EXPECT_FALSE(world_->place_is_free(GetParam()));
  char right = 0;
  ::close(result[1]);
  EXPECT_EQ(::read(result[0], &right, 1), 1);
  ::close(result[0]);
  EXPECT_EQ(right, 'y');
  EXPECT_TRUE(place_becomes_free(GetParam()));
}

// Several at once, each with threads that stop at the same blocks.
TEST_P(ForkSnapshotTest, ManyChildrenWithThreadsAreServed) {
  std::array<BlockId, 4> blocks{};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i] = world_->make_block(GetParam(), static_cast<char>(i + 1));
  }
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(world_->fork([&] {
      std::array<bool, 3> right{};
      std::vector<std::thread> threads;
      for (bool& one : right) {
        threads.emplace_back([&] {
          one = true;
          for (std::size_t b = 0; b < blocks.size(); ++b) {
            one = one && world_->holds(blocks[b], static_cast<char>(b + 1));
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      return right[0] && right[1] && right[2];
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(ForkWorld::status_of(child), 0);
  EXPECT_THAT(world_->failures(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(From, ForkSnapshotTest, ::testing::Values(Tier::kHost, Tier::kStorage),
                         [](const auto& tier) { return std::string(name_of(tier.param)); });

// A snapshot whose bytes cannot be read ends the run, and the child sees nothing wrong meanwhile.
TEST_F(ForkSnapshotTest, AChildWhoseBytesCannotBeReadEndsTheRun) {
  const BlockId block = world_->make_block(Tier::kHost, 5);
  world_->block(block).copies = {};
  world_->block(block).copies.add(Tier::kStorage);
  ASSERT_TRUE(world_->places.take(block, Tier::kStorage, kBlockBytes));  // never written
  const pid_t child = world_->fork([&] { return world_->start(block)[0] == 5; });
  for (int i = 0; i < 500 && world_->failures().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(world_->failures(),
              ElementsAre(HasSubstr("a child of the program cannot read its memory")));
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_TRUE(WIFSIGNALED(ForkWorld::status_of(child)));
}

// A child whose bytes are still to come from a disk that does not answer.
TEST_F(ForkSnapshotTest, NoFaultWaitsForWhatAChildWaitsFor) {
  std::latch goes_on(1);
  world_->on_failure = [&] { goes_on.wait(); };
  const BlockId block = world_->make_block(Tier::kHost, 5);
  world_->block(block).copies = {};
  world_->block(block).copies.add(Tier::kStorage);
  EXPECT_TRUE(world_->places.take(block, Tier::kStorage, kBlockBytes));  // never written
  const pid_t child = world_->fork([&] {
    ::usleep(20'000);  // until its parent has done with the fork
    return world_->start(block)[0] == 5;
  });
  const TimeNs until_ns = now_ns() + 10 * kNsPerS;
  while (world_->failures().empty() && now_ns() < until_ns) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(world_->failures().size(), 1U);  // and whoever answers the child stands there

  constexpr BlockId kOther = 40;
  std::thread program([&] { world_->start(kOther)[0] = 1; });
  FaultRecord record;
  bool told = false;
  while (!told && now_ns() < until_ns) {
    told = world_->next_fault(record);
  }
  EXPECT_TRUE(told);
  EXPECT_EQ(record.block, kOther);
  world_->answer_with_zeros(world_->start(kOther), kPageBytes);
  program.join();
  goes_on.count_down();
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_TRUE(WIFSIGNALED(ForkWorld::status_of(child)));
  world_.reset();  // before what its thread has waited for
}

}  // namespace
}  // namespace spillway::host
