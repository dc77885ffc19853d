// The host platform with real memory: contents survive every tier, budgets hold, errors stop the
// program before a wrong byte.
#include "platform/host/host_platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "platform/host/host_world.h"
#include "policy/deepum.h"

namespace spillway::host {
namespace {

using ::testing::HasSubstr;

TEST_F(HostPlatformTest, FreshMemoryReadsAsZeros) {
  open(32 * kMiB, 64 * kMiB, 0);
  if (!platform_) return;
  const auto words = allocate(5 * kMiB + 4096);
  for (const std::uint64_t one : words) {
    ASSERT_EQ(one, 0U);
  }
  EXPECT_EQ(platform_->stats().page_faults, 3U);
}

// Not the program's, but nobody tells it so without Spillway either: what is behind an allocation's
// end, in its last block, is protected with it and can be written with it.
TEST_F(HostPlatformTest, WhatIsBehindTheEndCanBeWritten) {
  open(32 * kMiB, 64 * kMiB, 0);
  if (!platform_) return;
  const auto words = allocate(kMiB);
  const volatile std::uint64_t& first = words[0];
  volatile std::uint64_t& behind = *(words.data() + words.size());
  EXPECT_EQ(first, 0U);  // to be read only
  EXPECT_EQ(behind, 0U);
  behind = 1;
  words[0] = 2;
  EXPECT_EQ(behind, 1U);
}

// By a bare system call, where the system can move pages and where it cannot.
TEST_F(HostPlatformTest, WhatTheProgramHasGivenUpLeavesAsZeros) {
  for (const bool keep_frames : {true, false}) {
    HostOptions options;
    options.keep_frames = keep_frames;
    open(32 * kMiB, 256 * kMiB, 0, options);
    if (!platform_) return;
    const auto words = allocate(8 * kMiB);
    std::ranges::fill(words, 7U);
    for (std::size_t at = kMiB / 8; at < words.size(); at += 2 * kMiB / 8) {
      ASSERT_EQ(::madvise(&words[at], 4096, MADV_DONTNEED), 0);
    }
    const auto others = allocate(64 * kMiB);
    std::ranges::fill(others, 8U);  // so all of the first has to leave
    EXPECT_GE(platform_->stats().engine.moved(Tier::kDevice, Tier::kHost), 8 * kMiB);
    for (std::size_t at = 0; at < words.size(); ++at) {
      ASSERT_EQ(words[at], at * 8 % (2 * kMiB) / 4096 == kMiB / 4096 ? 0U : 7U) << at;
    }
  }
}

// As above, of blocks that come back: divided when they have left.
TEST_F(HostPlatformTest, ContentsSurviveWherePagesThatComeBackCannotBeMoved) {
  open(32 * kMiB, 256 * kMiB, 0);
  if (!platform_) return;
  std::vector<std::span<std::uint64_t>> buffers;
  for (std::uint64_t i = 0; i < 8; ++i) {
    buffers.push_back(allocate(8 * kMiB));
    fill(buffers.back(), i, 1);
  }
  for (const std::span<std::uint64_t> words : buffers) {
    char* const start = reinterpret_cast<char*>(words.data());
    ASSERT_EQ(::madvise(start + 256 * kKiB, kMiB, MADV_DONTDUMP), 0);
    ASSERT_EQ(::mprotect(start + 3 * kMiB, 4096, PROT_NONE), 0);
    EXPECT_GT(words[2 * kMiB / 8 + 3], 0U);  // read only, beside a page that nobody may read
    ASSERT_EQ(::mprotect(start + 3 * kMiB, 4096, PROT_READ | PROT_WRITE), 0);
  }
  for (std::uint64_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(mismatches(buffers[i], i, 1), 0U) << i;
  }
  ASSERT_TRUE(platform_->check_invariants()) << platform_->check_invariants().error().message;
}

// The program has divided the mapping, so pages cannot be moved into the block, nor out of it.
TEST_F(HostPlatformTest, ContentsSurviveWherePagesCannotBeMoved) {
  open(32 * kMiB, 256 * kMiB, 0);
  if (!platform_) return;
  std::vector<std::span<std::uint64_t>> buffers;
  for (std::uint64_t i = 0; i < 8; ++i) {
    buffers.push_back(allocate(6 * kMiB));
    char* const start = reinterpret_cast<char*>(buffers.back().data());
    ASSERT_EQ(::madvise(start + i * 256 * kKiB, kMiB, MADV_DONTDUMP), 0);
    fill(buffers.back(), i, 1);
  }
  ASSERT_NO_FATAL_FAILURE(read_and_rewrite(buffers));
}

TEST_F(HostPlatformTest, ContentsSurviveHostMemory) {
  open(32 * kMiB, 256 * kMiB, 0);
  if (!platform_) return;
  std::vector<std::span<std::uint64_t>> buffers;
  for (std::uint64_t i = 0; i < 16; ++i) {
    buffers.push_back(allocate(7 * kMiB + 12 * kKiB));
    fill(buffers.back(), i, 1);
  }
  ASSERT_NO_FATAL_FAILURE(read_and_rewrite(buffers));
  const ProgramStats stats = platform_->stats();
  EXPECT_GT(stats.engine.moved(Tier::kDevice, Tier::kHost), 200 * kMiB);
  EXPECT_GT(stats.engine.moved(Tier::kHost, Tier::kDevice), 200 * kMiB);
  EXPECT_GT(stats.stalled_ns, 0);
}

TEST_F(HostPlatformTest, ContentsSurviveStorage) {
  open(16 * kMiB, 16 * kMiB, 256 * kMiB);
  if (!platform_) return;
  std::vector<std::span<std::uint64_t>> buffers;
  for (std::uint64_t i = 0; i < 12; ++i) {
    buffers.push_back(allocate(9 * kMiB - 8 * kKiB));
    fill(buffers.back(), i, 1);
  }
  ASSERT_NO_FATAL_FAILURE(read_and_rewrite(buffers));
  EXPECT_GT(platform_->stats().engine.moved(Tier::kDevice, Tier::kStorage), 0U);
  EXPECT_GT(platform_->stats().engine.moved(Tier::kStorage, Tier::kDevice), 0U);
  EXPECT_TRUE(platform_->check_invariants());
}

// Reading does not make a block dirty: its copy below stays, and it is dropped instead of written.
TEST_F(HostPlatformTest, CleanBlocksAreDroppedNotWritten) {
  open(16 * kMiB, 128 * kMiB, 0);
  if (!platform_) return;
  const auto words = allocate(64 * kMiB);
  fill(words, 1, 1);
  ASSERT_EQ(mismatches(words, 1, 1), 0U);  // all of it has been written down by the end of this
  const ProgramStats before = platform_->stats();
  ASSERT_EQ(mismatches(words, 1, 1), 0U);
  ASSERT_EQ(mismatches(words, 1, 1), 0U);
  platform_->wait_until_idle();
  const ProgramStats after = platform_->stats();
  EXPECT_EQ(after.engine.moved(Tier::kDevice, Tier::kHost),
            before.engine.moved(Tier::kDevice, Tier::kHost));
  EXPECT_GT(after.engine.moved(Tier::kHost, Tier::kDevice),
            before.engine.moved(Tier::kHost, Tier::kDevice) + 90 * kMiB);
}

TEST_F(HostPlatformTest, RetiredMemoryNeitherMovesNorStays) {
  open(16 * kMiB, 64 * kMiB, 0);
  if (!platform_) return;
  for (int round = 0; round < 20; ++round) {
    const auto words = allocate(8 * kMiB);
    fill(words, 1, 1);
    platform_->retire(words.data());
  }
  EXPECT_EQ(platform_->stats().engine.moved(Tier::kDevice, Tier::kHost), 0U);
  EXPECT_EQ(platform_->stats().live_bytes, 0U);
}

TEST_F(HostPlatformTest, ReusedMemoryKeepsWhatIsWrittenAfterwards) {
  open(16 * kMiB, 64 * kMiB, 0);
  if (!platform_) return;
  const auto words = allocate(8 * kMiB);
  fill(words, 1, 1);
  platform_->retire(words.data());
  const std::uint64_t faults = platform_->stats().page_faults;
  ASSERT_TRUE(platform_->reuse(words.data()));
  fill(words, 2, 1);
  EXPECT_EQ(platform_->stats().page_faults, faults);  // its frames were still there
  const auto other = allocate(16 * kMiB);
  fill(other, 3, 1);
  EXPECT_EQ(mismatches(words, 2, 1), 0U);
  EXPECT_EQ(mismatches(other, 3, 1), 0U);
}

TEST_F(HostPlatformTest, OfMemoryThatIsReusedInPartTheRestIsDead) {
  open(16 * kMiB, 64 * kMiB, 0);
  if (!platform_) return;
  const auto words = allocate(12 * kMiB);
  fill(words, 1, 1);
  EXPECT_FALSE(platform_->ready_for_reuse(words.data(), kMiB));
  platform_->retire(words.data());
  EXPECT_TRUE(platform_->ready_for_reuse(words.data(), 3 * kMiB));
  ASSERT_TRUE(platform_->reuse_first(words.data(), 3 * kMiB));
  EXPECT_EQ(platform_->stats().live_bytes, 3 * kMiB);
  EXPECT_FALSE(platform_->grow(words.data(), 4 * kMiB));
  const auto first = words.first(3 * kMiB / sizeof(std::uint64_t));
  fill(first, 2, 1);
  const auto other = allocate(12 * kMiB);
  fill(other, 3, 1);
  EXPECT_EQ(platform_->stats().engine.moved(Tier::kDevice, Tier::kHost), 0U);
  EXPECT_EQ(mismatches(first, 2, 1), 0U);
  platform_->retire(other.data());
  platform_->retire(words.data());
  EXPECT_EQ(platform_->stats().live_bytes, 0U);
  ASSERT_TRUE(platform_->reuse(words.data()));
  EXPECT_EQ(platform_->stats().live_bytes, 12 * kMiB);
  fill(words, 4, 1);
  const auto more = allocate(14 * kMiB);
  fill(more, 5, 1);
  EXPECT_EQ(mismatches(words, 4, 1), 0U);
  EXPECT_EQ(mismatches(more, 5, 1), 0U);
  EXPECT_TRUE(platform_->check_invariants());
}

TEST_F(HostPlatformTest, PromisesNoMoreThanTheTiersHold) {
  open(16 * kMiB, 32 * kMiB, 0);
  if (!platform_) return;
  const auto words = allocate(30 * kMiB);
  fill(words, 1, 1);
  const Result<void*> more = platform_->allocate(4 * kMiB);
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().message, HasSubstr("16 MiB of device memory"));
  EXPECT_EQ(mismatches(words, 1, 1), 0U);
  platform_->free(words.data());
  EXPECT_TRUE(platform_->allocate(4 * kMiB));
}

TEST_F(HostPlatformTest, TheTailThatGrownMemoryGivesUpIsPromisedNoMore) {
  open(16 * kMiB, 64 * kMiB, 0);
  if (!platform_) return;
  const Result<void*> start =
      platform_->allocate_with_room(5 * kMiB, 20 * kMiB, ProgramPlatform::Fresh::kZeros);
  ASSERT_TRUE(start);
  char* const bytes = static_cast<char*>(*start);
  ASSERT_TRUE(platform_->grow(bytes, 7 * kMiB));
  EXPECT_EQ(platform_->stats().live_bytes, 7 * kMiB);
  std::fill_n(bytes, 7 * kMiB, 'x');
  platform_->give_up(bytes + 6 * kMiB, kMiB);  // all that the last block holds, and may hold more
  EXPECT_EQ(platform_->stats().live_bytes, 6 * kMiB);
  platform_->give_up(bytes + 3 * kMiB, 3 * kMiB);
  EXPECT_EQ(platform_->stats().live_bytes, 4 * kMiB);
  EXPECT_EQ(std::count(bytes, bytes + 4 * kMiB, 'x'), 4 * kMiB);
  platform_->free(bytes);
  EXPECT_EQ(platform_->stats().live_bytes, 0U);
}

// However memory is asked for, grows, loses parts, dies and is taken up again.
TEST_F(HostPlatformTest, WhatIsPromisedIsWhatIsHeld) {
  open(16 * kMiB, 256 * kMiB, 0);
  if (!platform_) return;
  struct Held {
    char* start = nullptr;
    Bytes bytes = 0;       // that it holds
    Bytes most_bytes = 0;  // that it may hold
    Bytes given_up_bytes = 0;
    bool retired = false;
    [[nodiscard]] Bytes promised_bytes() const { return retired ? 0 : bytes - given_up_bytes; }
  };
  std::vector<Held> all;
  Rng dice(7);
  const auto below = [&](std::uint64_t end) { return dice.below(end); };
  constexpr int kRounds = 1000;
  constexpr std::size_t kMost = 12;
  for (int round = 0; round < kRounds; ++round) {
    Held* const one = all.empty() ? nullptr : &all[below(all.size())];
    switch (all.size() < kMost / 2 ? below(8) % 6 : below(8)) {
      case 0:
      case 1: {
        const Bytes bytes = (1 + below(2000)) * kPageBytes;
        const Bytes most = below(2) == 0 ? bytes : round_up(4 * bytes, kBlockBytes);
        const Result<void*> made =
            platform_->allocate_with_room(bytes, most, ProgramPlatform::Fresh::kAnything);
        if (made) {
          all.push_back({.start = static_cast<char*>(*made), .bytes = bytes, .most_bytes = most});
        }
        break;
      }
      case 2:
        if (one != nullptr && !one->retired && one->given_up_bytes == 0) {
          const Bytes bytes = std::min(one->bytes + below(600) * kPageBytes, one->most_bytes);
          one->bytes = platform_->grow(one->start, bytes) ? bytes : one->bytes;
        }
        break;
      case 3:
        if (one != nullptr && !one->retired && one->given_up_bytes == 0) {
          const Bytes from = below(one->bytes / kBlockBytes + 1) * kBlockBytes;
          if (from < one->bytes) {
            platform_->give_up(one->start + from, one->bytes - from);
            one->given_up_bytes = one->bytes - from;
          }
        }
        break;
      case 4:
      case 5:
        if (one != nullptr && below(2) == 0) {
          platform_->retire(one->start);
          one->retired = true;
        } else if (one != nullptr && platform_->reuse(one->start)) {
          one->retired = false;
        }
        break;
      default:
        if (one != nullptr) {
          platform_->free(one->start);
          *one = all.back();
          all.pop_back();
        }
    }
    const Bytes promised =
        std::accumulate(all.begin(), all.end(), Bytes{0},
                        [](Bytes sum, const Held& held) { return sum + held.promised_bytes(); });
    ASSERT_EQ(platform_->stats().live_bytes, promised) << "round " << round;
  }
  for (const Held& held : all) {
    platform_->free(held.start);
  }
  EXPECT_EQ(platform_->stats().live_bytes, 0U);
  EXPECT_TRUE(platform_->check_invariants());
}

TEST_F(HostPlatformTest, ThreadsRaceForBlocks) {
  open(16 * kMiB, 128 * kMiB, 0);
  if (!platform_) return;
  std::vector<std::span<std::uint64_t>> buffers;
  buffers.reserve(4);
  for (int i = 0; i < 4; ++i) {
    buffers.push_back(allocate(14 * kMiB));
  }
  std::vector<std::thread> threads;
  std::atomic<std::size_t> wrong{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto mine = buffers[t];
      for (std::uint64_t round = 1; round < 6; ++round) {
        fill(mine, t, round);
        wrong += mismatches(mine, t, round);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_TRUE(platform_->check_invariants());
}

// Many of them are one transfer: more reads under way than anybody counted on.
TEST_F(HostPlatformTest, SmallBlocksSurviveStorage) {
  open(16 * kMiB, 0, 256 * kMiB);
  if (!platform_) return;
  std::vector<std::span<std::uint64_t>> buffers;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    buffers.push_back(allocate(64 * kKiB));
    fill(buffers.back(), i, 1);
  }
  for (std::uint64_t round = 1; round < 4; ++round) {
    for (std::uint64_t i = 0; i < buffers.size(); ++i) {
      for (std::uint64_t next = i; i % 100 == 0 && next < i + 100; ++next) {
        platform_->prefetch(buffers[next].data(), buffers[next].size_bytes());
      }
      ASSERT_EQ(mismatches(buffers[i], i, round), 0U) << i;
      fill(buffers[i], i, round + 1);
    }
  }
  EXPECT_GT(platform_->stats().engine.moved(Tier::kStorage, Tier::kDevice), 100 * kMiB);
  EXPECT_TRUE(platform_->check_invariants());
}

TEST_F(HostPlatformTest, LaunchesFindTheirOperandsResident) {
  open(32 * kMiB, 128 * kMiB, 0);
  if (!platform_) return;
  const auto a = allocate(12 * kMiB);
  const auto b = allocate(12 * kMiB);
  const auto c = allocate(12 * kMiB);
  const std::array<std::span<std::uint64_t>, 3> all{a, b, c};
  for (std::uint64_t i = 0; i < 3; ++i) fill(all[i], i, 1);
  for (std::uint64_t round = 1; round < 4; ++round) {
    for (std::uint64_t i = 0; i < 3; ++i) {
      const std::array operands{operand(all[i], AccessMode::kReadWrite),
                                operand(all[(i + 1) % 3], AccessMode::kRead)};
      const LaunchId launch = platform_->begin_launch("step", operands);
      const std::uint64_t faults = platform_->stats().page_faults;
      ASSERT_EQ(mismatches(all[i], i, round), 0U);
      fill(all[i], i, round + 1);
      EXPECT_EQ(platform_->stats().page_faults, faults);
      platform_->end_launch(launch);
    }
  }
  EXPECT_TRUE(platform_->check_invariants());
}

// Reads of what is there stop nowhere: a launch that has once said what it uses is taken to use the
// same when it comes again.
TEST_F(HostPlatformTest, PrefetchesAreOfUseToLaunchesThatOnceSaidSo) {
  open(32 * kMiB, 128 * kMiB, 0);
  if (!platform_) return;
  const auto a = allocate(12 * kMiB);
  fill(a, 0, 1);
  const LaunchOperand identity{.allocation = 1, .bytes = 0};
  const LaunchHash hash = hash_launch("reads", {&identity, 1});
  platform_->mark_launch(hash, "reads", true);
  platform_->mark_access(a.data(), a.size_bytes(), false);
  const auto other = allocate(28 * kMiB);
  fill(other, 1, 1);  // a leaves
  platform_->free(other.data());
  platform_->prefetch(a.data(), a.size_bytes());
  platform_->wait_until_idle();
  allocate(kPageBytes);  // until here the last mark has been taken for sure
  const EngineStats before = platform_->stats().engine;
  EXPECT_GE(before.prefetched, 4U);
  EXPECT_EQ(before.prefetches_used, 0U);
  platform_->mark_launch(hash, "reads", false);
  allocate(kPageBytes);
  EXPECT_EQ(platform_->stats().engine.prefetches_used, before.prefetched);
  EXPECT_EQ(mismatches(a, 0, 1), 0U);
}

TEST_F(HostPlatformTest, ALaunchLargerThanTheBudgetRunsOnFaults) {
  open(16 * kMiB, 128 * kMiB, 0);
  if (!platform_) return;
  const auto words = allocate(40 * kMiB);
  const std::array operands{operand(words, AccessMode::kReadWrite)};
  const LaunchId launch = platform_->begin_launch("large", operands);
  fill(words, 1, 1);
  EXPECT_EQ(mismatches(words, 1, 1), 0U);
  platform_->end_launch(launch);
}

// A launch keeps all of the budget, and a thread touches something else.
TEST_F(HostPlatformTest, AThreadThatWaitsForALaunchIsToldOf) {
  std::mutex mutex;
  std::string said;
  HostOptions options;
  options.warn_after_ns = 100'000'000;
  options.warn = [&](std::string_view text) {
    const std::scoped_lock lock(mutex);
    said = text;
  };
  open(16 * kMiB, 64 * kMiB, 0, options);
  if (!platform_) return;
  const auto held = allocate(16 * kMiB);
  const auto other = allocate(8 * kMiB);
  const std::array operands{operand(held, AccessMode::kReadWrite)};
  const LaunchId launch = platform_->begin_launch("holds", operands);
  std::thread waits([&] {
    fill(other, 1, 1);
    EXPECT_EQ(mismatches(other, 1, 1), 0U);
  });
  const auto has_said = [&] {
    const std::scoped_lock lock(mutex);
    return !said.empty();
  };
  for (int i = 0; i < 1000 && !has_said(); ++i) {
    ::usleep(10'000);
  }
  platform_->end_launch(launch);
  waits.join();
  EXPECT_THAT(said, testing::HasSubstr("16 MiB of device memory are too few"));
}

}  // namespace
}  // namespace spillway::host
