// The C API as a program uses it: contents survive, misuse is an error code and a line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "capi/capi_space.h"

namespace spillway::test {
namespace {

class CapiTest : public CapiSpaceTest {
 protected:
  std::uint64_t* allocate(std::size_t bytes) {
    void* start = nullptr;
    EXPECT_EQ(spillwayMalloc(&start, bytes, space_), spillwaySuccess) << message();
    return static_cast<std::uint64_t*>(start);
  }
  static void fill(std::uint64_t* words, std::size_t bytes, std::uint64_t key) {
    for (std::size_t i = 0; i < bytes / 8; ++i) words[i] = key + i * 3;
  }
  static std::size_t wrong(const std::uint64_t* words, std::size_t bytes, std::uint64_t key) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < bytes / 8; ++i) count += words[i] == key + i * 3 ? 0U : 1U;
    return count;
  }
  // Touches so much else that nothing of before is on the device any more.
  void press() {
    std::uint64_t* const other = allocate(24 * kMiB);
    fill(other, 24 * kMiB, 7);
    EXPECT_EQ(spillwayFree(other, space_), spillwaySuccess);
  }
  spillwayStatistics_t statistics() {
    spillwayStatistics_t values{};
    EXPECT_EQ(spillwayGetStatistics(&values, sizeof(values), space_), spillwaySuccess);
    return values;
  }
};

TEST_F(CapiTest, MoreThanTheDeviceHolds) {
  std::vector<std::uint64_t*> arrays;
  for (std::uint64_t i = 0; i < 8; ++i) {
    arrays.push_back(allocate(7 * kMiB));
    fill(arrays.back(), 7 * kMiB, i);
  }
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(wrong(arrays[i], 7 * kMiB, i), 0U) << i;
  EXPECT_LE(statistics().usedBytes[spillwayTierDevice], 16 * kMiB);
  EXPECT_EQ(statistics().allocatedBytes, 56 * kMiB);
  EXPECT_GT(statistics().movedBytes[spillwayTierHost][spillwayTierDevice], 32 * kMiB);
  for (std::uint64_t* const one : arrays) EXPECT_EQ(spillwayFree(one, space_), spillwaySuccess);
  EXPECT_EQ(statistics().allocatedBytes, 0U);
  EXPECT_EQ(statistics().allocatedPeakBytes, 56 * kMiB);
}

TEST_F(CapiTest, LaunchesUseWhatTheyName) {
  std::array<std::uint64_t*, 6> arrays{};
  for (std::uint64_t*& one : arrays) one = allocate(6 * kMiB);
  for (std::uint64_t round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const std::size_t from = (i + arrays.size() - 1) % arrays.size();
      const std::array<spillwayAccess_t, 2> accesses{
          {{arrays[from], 6 * kMiB, spillwayAccessRead},
           {arrays[i], 6 * kMiB, spillwayAccessOverwrite}}};
      spillwayLaunch_t launch = 0;
      ASSERT_EQ(spillwayLaunchBegin(&launch, "step", accesses.data(), accesses.size(), space_),
                spillwaySuccess)
          << message();
      const std::uint64_t faults = statistics().pageFaults;
      if (round > 0 || i > 0) {
        ASSERT_EQ(wrong(arrays[from], 6 * kMiB, round * 8 + i - 1 - (i == 0 ? 2U : 0U)), 0U);
      }
      fill(arrays[i], 6 * kMiB, round * 8 + i);
      EXPECT_EQ(statistics().pageFaults, faults) << "a launch's memory was not there";
      ASSERT_EQ(spillwayLaunchEnd(launch, space_), spillwaySuccess) << message();
    }
  }
  EXPECT_EQ(statistics().launches, 24U);
}

// An overwrite of a part must not cost the rest.
TEST_F(CapiTest, OverwrittenPartKeepsTheRest) {
  std::uint64_t* const words = allocate(4 * kMiB);
  fill(words, 4 * kMiB, 5);
  press();
  const spillwayAccess_t half{words, 2 * kMiB, spillwayAccessOverwrite};
  spillwayLaunch_t launch = 0;
  ASSERT_EQ(spillwayLaunchBegin(&launch, "half", &half, 1, space_), spillwaySuccess);
  fill(words, 2 * kMiB, 9);
  ASSERT_EQ(spillwayLaunchEnd(launch, space_), spillwaySuccess);
  press();
  EXPECT_EQ(wrong(words, 2 * kMiB, 9), 0U);
  EXPECT_EQ(wrong(words + 2 * kMiB / 8, 2 * kMiB, 5 + 3 * (2 * kMiB / 8)), 0U);
}

TEST_F(CapiTest, LaunchTooLargeForTheDeviceRunsOnFaults) {
  std::uint64_t* const words = allocate(40 * kMiB);
  const spillwayAccess_t all{words, 40 * kMiB, spillwayAccessWrite};
  spillwayLaunch_t launch = 0;
  ASSERT_EQ(spillwayLaunchBegin(&launch, "large", &all, 1, space_), spillwaySuccess) << message();
  fill(words, 40 * kMiB, 1);
  EXPECT_EQ(wrong(words, 40 * kMiB, 1), 0U);
  ASSERT_EQ(spillwayLaunchEnd(launch, space_), spillwaySuccess);
}

TEST_F(CapiTest, DiscardedMemoryMovesNoMore) {
  std::uint64_t* const words = allocate(8 * kMiB);
  fill(words, 8 * kMiB, 3);
  ASSERT_EQ(spillwayMemDiscard(words, 8 * kMiB, space_), spillwaySuccess) << message();
  press();
  for (std::size_t i = 0; i < 8 * kMiB / 8; ++i) {
    ASSERT_TRUE(words[i] == 0 || words[i] == 3 + i * 3) << i;
  }
  EXPECT_GT(statistics().savedByDiscardBytes, 0U);
  // What is written after a discard is kept.
  ASSERT_EQ(spillwayMemDiscard(words, 8 * kMiB, space_), spillwaySuccess);
  fill(words, 8 * kMiB, 4);
  press();
  EXPECT_EQ(wrong(words, 8 * kMiB, 4), 0U);
}

// Only the blocks that lie in the range are discarded: here the second of four.
TEST_F(CapiTest, DiscardOfAPartKeepsTheRest) {
  for (auto* const discard : {spillwayMemDiscard, spillwayMemDiscardLazy}) {
    std::uint64_t* const words = allocate(8 * kMiB);
    fill(words, 8 * kMiB, 3);
    const std::uint64_t before = statistics().savedByDiscardBytes;
    ASSERT_EQ(discard(words + 1024, 4 * kMiB, space_), spillwaySuccess);
    ASSERT_EQ(discard(words + 1024, 1 * kMiB, space_), spillwaySuccess);  // no whole block
    press();
    EXPECT_EQ(statistics().savedByDiscardBytes - before, 2 * kMiB);
    EXPECT_EQ(wrong(words, 2 * kMiB, 3), 0U);
    EXPECT_EQ(wrong(words + 4 * kMiB / 8, 4 * kMiB, 3 + 3 * (4 * kMiB / 8)), 0U);
    ASSERT_EQ(spillwayMemPrefetchAsync(words, 8 * kMiB, spillwayTierDevice, space_),
              spillwaySuccess);
    fill(words, 8 * kMiB, 5);
    press();
    EXPECT_EQ(wrong(words, 8 * kMiB, 5), 0U);
    EXPECT_EQ(spillwayFree(words, space_), spillwaySuccess);
  }
}

// An array four times as large as the device, by tiles: each is there when its launch begins.
TEST_F(CapiTest, LaunchesNameTilesOfALargeArray) {
  constexpr std::size_t kTile = 5 * kMiB;
  constexpr std::size_t kTiles = 13;
  std::uint64_t* const words = allocate(kTiles * kTile);
  const auto tile = [&](std::size_t i) { return words + i * kTile / 8; };
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < kTiles; ++i) {
      std::array<spillwayAccess_t, 2> accesses{
          {{tile(i), kTile, spillwayAccessOverwrite},
           {tile((i + 3) % kTiles), kTile, spillwayAccessRead}}};
      spillwayLaunch_t launch = 0;
      ASSERT_EQ(spillwayLaunchBegin(&launch, "tile", accesses.data(), 2, space_), spillwaySuccess)
          << message();
      const std::uint64_t faults = statistics().pageFaults;
      const std::uint64_t written = (i + 3 < kTiles ? round : round + 1);
      if (written > 0) {
        ASSERT_EQ(wrong(tile((i + 3) % kTiles), kTile, 100 * (written - 1) + (i + 3) % kTiles), 0U);
      }
      fill(tile(i), kTile, 100 * round + i);
      EXPECT_EQ(statistics().pageFaults, faults);
      ASSERT_EQ(spillwayLaunchEnd(launch, space_), spillwaySuccess);
    }
  }
  for (std::size_t i = 0; i < kTiles; ++i) EXPECT_EQ(wrong(tile(i), kTile, 200 + i), 0U) << i;
}

TEST_F(CapiTest, LazyDiscardThenPrefetchKeepsWhatIsWritten) {
  std::uint64_t* const words = allocate(8 * kMiB);
  for (std::uint64_t round = 0; round < 3; ++round) {
    fill(words, 8 * kMiB, round);
    ASSERT_EQ(spillwayMemDiscardLazy(words, 8 * kMiB, space_), spillwaySuccess);
    if (round == 1) press();
    ASSERT_EQ(spillwayMemPrefetchAsync(words, 8 * kMiB, spillwayTierDevice, space_),
              spillwaySuccess);
    fill(words, 8 * kMiB, round + 10);
    press();
    ASSERT_EQ(wrong(words, 8 * kMiB, round + 10), 0U) << round;
  }
}

// Also what the program writes long after that launch, without naming it, when the memory has been
// away and a launch that only reads has brought it back.
TEST_F(CapiTest, LazyDiscardThenLaunchKeepsWhatIsWritten) {
  std::uint64_t* const words = allocate(6 * kMiB);
  fill(words, 6 * kMiB, 1);
  ASSERT_EQ(spillwayMemDiscardLazy(words, 6 * kMiB, space_), spillwaySuccess);
  spillwayAccess_t all{words, 6 * kMiB, spillwayAccessWrite};
  spillwayLaunch_t launch = 0;
  ASSERT_EQ(spillwayLaunchBegin(&launch, "fill", &all, 1, space_), spillwaySuccess);
  fill(words, 6 * kMiB, 2);
  ASSERT_EQ(spillwayLaunchEnd(launch, space_), spillwaySuccess);
  press();
  all.mode = spillwayAccessRead;
  ASSERT_EQ(spillwayLaunchBegin(&launch, "read", &all, 1, space_), spillwaySuccess);
  ASSERT_EQ(wrong(words, 6 * kMiB, 2), 0U);
  ASSERT_EQ(spillwayLaunchEnd(launch, space_), spillwaySuccess);
  fill(words, 6 * kMiB, 3);
  press();
  EXPECT_EQ(wrong(words, 6 * kMiB, 3), 0U);
}

TEST_F(CapiTest, PrefetchAndPreEvictMoveData) {
  std::uint64_t* const words = allocate(8 * kMiB);
  fill(words, 8 * kMiB, 1);
  ASSERT_EQ(spillwayMemPreEvictAsync(words, 8 * kMiB, spillwayTierHost, space_), spillwaySuccess);
  ASSERT_EQ(spillwaySynchronize(space_), spillwaySuccess);
  EXPECT_EQ(statistics().movedBytes[spillwayTierDevice][spillwayTierHost], 8 * kMiB);
  press();
  const std::uint64_t faults = statistics().pageFaults;
  ASSERT_EQ(spillwayMemPrefetchAsync(words + 1, 8, spillwayTierDevice, space_), spillwaySuccess);
  ASSERT_EQ(spillwaySynchronize(space_), spillwaySuccess);
  EXPECT_EQ(statistics().movedBytes[spillwayTierHost][spillwayTierDevice], 2 * kMiB);
  ASSERT_EQ(spillwayMemPrefetchAsync(words, 8 * kMiB, spillwayTierDevice, space_), spillwaySuccess);
  ASSERT_EQ(spillwaySynchronize(space_), spillwaySuccess);
  EXPECT_EQ(wrong(words, 8 * kMiB, 1), 0U);
  EXPECT_EQ(statistics().pageFaults, faults);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ASSERT_EQ(spillwayMemGetInfo(&free_bytes, &total_bytes, space_), spillwaySuccess);
  EXPECT_EQ(total_bytes, 16 * kMiB);
  EXPECT_LE(free_bytes, 8 * kMiB);
}

// Four arrays, two of which fit; each iteration goes over all of them, twice.
TEST_F(CapiTest, IterationsThatArePlannedKeepTheirContents) {
  for (const char* const policy : {"g10", "g10_host"}) {
    ASSERT_EQ(spillwaySpaceDestroy(space_), spillwaySuccess);
    space_ = nullptr;
    options_.policy = policy;
    ASSERT_EQ(spillwaySpaceCreate(&space_, &options_), spillwaySuccess) << message();
    std::array<std::uint64_t*, 4> arrays{};
    for (std::uint64_t*& one : arrays) one = allocate(6 * kMiB);
    std::uint64_t key = 0;
    for (int iteration = 0; iteration < 6; ++iteration) {
      for (std::size_t i = 0; i < 8; ++i) {
        std::uint64_t* const words = arrays[i % 4];
        const spillwayAccess_t access{words, 6 * kMiB,
                                      i < 4 ? spillwayAccessOverwrite : spillwayAccessRead};
        spillwayLaunch_t launch = 0;
        ASSERT_EQ(spillwayLaunchBegin(&launch, i < 4 ? "fill" : "check", &access, 1, space_),
                  spillwaySuccess);
        ::usleep(50'000);  // copies can hide behind it, also where the machine is busy
        if (i < 4) {
          fill(words, 6 * kMiB, key + i);
        } else {
          ASSERT_EQ(wrong(words, 6 * kMiB, key + i - 4), 0U) << iteration << ' ' << i;
        }
        ASSERT_EQ(spillwayLaunchEnd(launch, space_), spillwaySuccess);
      }
      key += 10;
      ASSERT_EQ(spillwayIterationEnd(space_), spillwaySuccess);
    }
    EXPECT_GT(statistics().preEvictions, 0U) << policy;  // only a plan makes them
  }
}

TEST_F(CapiTest, LaunchesOfSeveralThreads) {
  std::vector<std::thread> threads;
  std::array<std::size_t, 3> errors{};
  for (std::size_t t = 0; t < errors.size(); ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t* const words = allocate(8 * kMiB);
      for (std::uint64_t round = 0; round < 20; ++round) {
        const spillwayAccess_t all{words, 8 * kMiB, spillwayAccessReadWrite};
        spillwayLaunch_t launch = 0;
        errors[t] +=
            spillwayLaunchBegin(&launch, "work", &all, 1, space_) == spillwaySuccess ? 0U : 1U;
        errors[t] += round == 0 ? 0 : wrong(words, 8 * kMiB, round - 1 + t * 100);
        fill(words, 8 * kMiB, round + t * 100);
        errors[t] += spillwayLaunchEnd(launch, space_) == spillwaySuccess ? 0U : 1U;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(errors, ::testing::Each(0U));
}

// Two threads, each with one launch inside another, which never fit all together: one waits for the
// other, or is told that it would wait for ever, and none of them does.
TEST_F(CapiTest, LaunchesInsideOthersNeverWaitForEachOther) {
  std::vector<std::thread> threads;
  std::array<std::size_t, 2> rounds{};
  const std::array<std::array<std::size_t, 2>, 2> sizes{
      {{4 * kMiB, 10 * kMiB}, {4 * kMiB, 2 * kMiB}}};
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    const std::array<spillwayAccess_t, 2> accesses{
        {{allocate(sizes[t][0]), sizes[t][0], spillwayAccessRead},
         {allocate(sizes[t][1]), sizes[t][1], spillwayAccessRead}}};
    threads.emplace_back([&, t, accesses] {
      for (; rounds[t] < 3000; ++rounds[t]) {
        std::array<spillwayLaunch_t, 2> launches{};
        std::size_t begun = 0;
        while (begun < 2 && spillwayLaunchBegin(&launches[begun], "part", &accesses[begun], 1,
                                                space_) == spillwaySuccess) {
          ++begun;
        }
        while (begun > 0) {
          (void)spillwayLaunchEnd(launches[--begun], space_);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(rounds, ::testing::Each(3000U));
}

}  // namespace
}  // namespace spillway::test
