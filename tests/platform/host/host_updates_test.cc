// Updates next to their data on real memory: what is computed in host memory is what the program
// finds, wherever its memory was before. docs/near-memory.md.
#include <gmock/gmock.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "platform/host/host_world.h"

namespace spillway::host {
namespace {

class HostUpdates : public HostPlatformTest {
 protected:
  // Adds one to every word of the buffers, next to their data. False where they had better be used
  // where they are.
  bool add_one(const std::vector<std::span<std::uint64_t>>& buffers) {
    std::vector<ProgramOperand> operands;
    for (const std::span<std::uint64_t> buffer : buffers) {
      operands.push_back(operand(buffer, AccessMode::kReadWrite));
    }
    const std::optional<UpdateId> update = platform_->begin_update(operands);
    if (!update) {
      return false;
    }
    const std::vector<Extents> all = platform_->update_extents(*update);
    for (const Extents& extents : all) {
      for (const Extent& extent : extents) {
        auto* const words = reinterpret_cast<std::uint64_t*>(extent.at);
        for (std::size_t i = 0; i < extent.bytes / sizeof(std::uint64_t); ++i) {
          ++words[i];
        }
      }
    }
    platform_->end_update(*update);
    return !all.empty();
  }
  static std::size_t wrong(std::span<const std::uint64_t> words, std::uint64_t buffer,
                           std::uint64_t added) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < words.size(); ++i) {
      count += words[i] == word(buffer, 1, i) + added ? 0U : 1U;
    }
    return count;
  }
  // Of 4 MiB each, one after the other: the first ones have left.
  std::vector<std::span<std::uint64_t>> filled(std::size_t count) {
    std::vector<std::span<std::uint64_t>> buffers;
    for (std::uint64_t i = 0; i < count; ++i) {
      buffers.push_back(allocate(4 * kMiB));
      fill(buffers.back(), i, 1);
    }
    return buffers;
  }
};

TEST_F(HostUpdates, ComputeWhereTheDataHasLeftTo) {
  open(16 * kMiB, 64 * kMiB, 0);
  if (IsSkipped()) {
    return;
  }
  const auto buffers = filled(8);
  const Bytes fetched = platform_->stats().engine.moved(Tier::kHost, Tier::kDevice);
  ASSERT_TRUE(add_one({buffers[0], buffers[1]}));
  EXPECT_EQ(platform_->stats().engine.moved(Tier::kHost, Tier::kDevice), fetched);
  EXPECT_EQ(platform_->stats().engine.updates, 1U);
  EXPECT_EQ(wrong(buffers[0], 0, 1), 0U);
  EXPECT_EQ(wrong(buffers[1], 1, 1), 0U);
}

TEST_F(HostUpdates, AreNotForWhatIsThere) {
  open(16 * kMiB, 64 * kMiB, 0);
  if (IsSkipped()) {
    return;
  }
  const auto buffers = filled(2);
  EXPECT_FALSE(add_one({buffers[0]}));
  std::vector<std::uint64_t> elsewhere(1024);
  EXPECT_FALSE(add_one({std::span(elsewhere)}));
}

TEST_F(HostUpdates, FetchFromTheSwapFileAndLeaveForIt) {
  open(16 * kMiB, 16 * kMiB, 128 * kMiB);
  if (IsSkipped()) {
    return;
  }
  const auto buffers = filled(20);
  std::vector<std::uint64_t> added(buffers.size());
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      added[i] += add_one({buffers[i]}) ? 1U : 0U;
    }
  }
  EXPECT_GT(platform_->stats().engine.updates, 20U);
  EXPECT_GT(platform_->stats().engine.moved(Tier::kStorage, Tier::kHost), 0U);
  ASSERT_TRUE(platform_->check_invariants()) << platform_->check_invariants().error().message;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_EQ(wrong(buffers[i], i, added[i]), 0U) << i;
  }
}

// All that may be promised is alive, and there is no swap file: an update that finds no room does
// without, and the program goes on.
TEST_F(HostUpdates, DoWithoutWhereThereIsNoRoom) {
  open(32 * kMiB, 32 * kMiB, 0);
  if (IsSkipped()) {
    return;
  }
  const auto buffers = filled(11);  // of 4 MiB
  std::vector<std::uint64_t> added(buffers.size());
  for (std::size_t round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i + 4 < buffers.size(); ++i) {
      if (add_one({buffers[i], buffers[i + 1], buffers[i + 2], buffers[i + 3], buffers[i + 4]})) {
        for (std::size_t k = i; k < i + 5; ++k) {
          ++added[k];
        }
      }
    }
  }
  ASSERT_TRUE(platform_->check_invariants()) << platform_->check_invariants().error().message;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(wrong(buffers[i], i, added[i]), 0U) << i;
  }
}

// It uses its data in a launch that does not end, as of memory that is locked: an update does
// without.
TEST_F(HostUpdates, DoWithoutWhatALaunchHolds) {
  open(16 * kMiB, 64 * kMiB, 0);
  if (IsSkipped()) {
    return;
  }
  const auto buffers = filled(8);
  const std::vector held{operand(buffers[0], AccessMode::kRead)};
  const LaunchId launch = platform_->begin_launch("held", held);
  const std::vector operands{operand(buffers[0], AccessMode::kReadWrite),
                             operand(buffers[1], AccessMode::kReadWrite),
                             operand(buffers[2], AccessMode::kReadWrite)};
  const std::optional<UpdateId> update = platform_->begin_update(operands);
  ASSERT_TRUE(update);
  EXPECT_TRUE(platform_->update_extents(*update).empty());
  platform_->end_update(*update);
  platform_->end_launch(launch);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(wrong(buffers[i], i, 0), 0U) << i;
  }
}

// A thread that uses what is being updated stops until that is done.
TEST_F(HostUpdates, OthersWaitForTheEnd) {
  open(16 * kMiB, 64 * kMiB, 0);
  if (IsSkipped()) {
    return;
  }
  const auto buffers = filled(8);
  const std::vector operands{operand(buffers[0], AccessMode::kReadWrite)};
  const std::optional<UpdateId> update = platform_->begin_update(operands);
  ASSERT_TRUE(update);
  const std::vector<Extents> extents = platform_->update_extents(*update);
  std::atomic<std::uint64_t> seen = 0;
  std::thread reader([&] { seen = buffers[0][5]; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(seen, 0U);
  reinterpret_cast<std::uint64_t*>(extents[0][0].at)[5] = 4711;
  platform_->end_update(*update);
  reader.join();
  EXPECT_EQ(seen, 4711U);
}

// Seeds: updates and threads by turns, under pressure, with a swap file.
TEST_F(HostUpdates, AnythingByTurns) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    open(16 * kMiB, 24 * kMiB, 128 * kMiB);
    if (IsSkipped()) {
      return;
    }
    std::mt19937 dice(seed);
    const auto buffers = filled(16);
    std::vector<std::uint64_t> added(buffers.size());
    for (int step = 0; step < 120; ++step) {
      const std::size_t one = dice() % buffers.size();
      if (dice() % 2 == 0) {
        const std::size_t other = (one + 1 + dice() % (buffers.size() - 1)) % buffers.size();
        if (add_one({buffers[one], buffers[other]})) {
          ++added[one];
          ++added[other];
        }
        continue;
      }
      ASSERT_EQ(wrong(buffers[one], one, added[one]), 0U) << "seed " << seed << ", step " << step;
      for (std::uint64_t& value : buffers[one]) {
        ++value;
      }
      ++added[one];
    }
    EXPECT_GT(platform_->stats().engine.updates, 10U);
    ASSERT_TRUE(platform_->check_invariants()) << platform_->check_invariants().error().message;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      ASSERT_EQ(wrong(buffers[i], i, added[i]), 0U) << "seed " << seed << ", buffer " << i;
    }
  }
}

}  // namespace
}  // namespace spillway::host
