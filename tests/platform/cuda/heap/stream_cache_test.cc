// What a heap frees and hands on where all fits, of which the platform is not told: it is told when
// it has to know, and nothing that is dead is moved for that. docs/cuda.md.
#include "heap/stream_cache.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "heap/device_heap.h"
#include "platform/cuda/cuda_world.h"
#include "policy/lookahead.h"

namespace spillway::cuda {
namespace {

using testing::UnorderedElementsAre;

CuStream stream(std::uintptr_t number) {
  return reinterpret_cast<CuStream>(number);  // NOLINT(performance-no-int-to-ptr): never followed
}

TEST(StreamCache, WhatWasFreedLastIsTakenFirst) {
  StreamCache hand;
  ASSERT_TRUE(hand.put(nullptr, 512, 3));
  ASSERT_TRUE(hand.put(nullptr, 512, 4));
  EXPECT_EQ(hand.bytes(), 1024U);
  EXPECT_EQ(hand.take(nullptr, 512), 4U);
  EXPECT_EQ(hand.take(nullptr, 512), 3U);
  EXPECT_EQ(hand.take(nullptr, 512), std::nullopt);
  EXPECT_TRUE(hand.empty());
}

TEST(StreamCache, OnlyInItsOrderAndOfItsSize) {
  StreamCache hand;
  ASSERT_TRUE(hand.put(stream(64), 512, 1));
  EXPECT_EQ(hand.take(nullptr, 512), std::nullopt);
  EXPECT_EQ(hand.take(stream(64), 1024), std::nullopt);
  EXPECT_EQ(hand.take(stream(64), 512), 1U);
}

// Streams come and go, and each has a stack: what nobody has anything on is another's.
TEST(StreamCache, AnEmptyStackMakesPlace) {
  StreamCache hand;
  for (std::uint32_t i = 1; i <= 100'000; ++i) {
    ASSERT_TRUE(hand.put(stream(std::uintptr_t{i} * 64), 512, 1));
    ASSERT_EQ(hand.take(stream(std::uintptr_t{i} * 64), 512), 1U);
  }
}

TEST(StreamCache, AllOfIt) {
  StreamCache hand;
  ASSERT_TRUE(hand.put(nullptr, 512, 7));
  ASSERT_TRUE(hand.put(stream(64), 512, 8));
  ASSERT_TRUE(hand.put(nullptr, 1024, 9));
  ASSERT_TRUE(hand.put(nullptr, 512, 6));
  EXPECT_EQ(hand.take(nullptr, 1024), 9U);
  std::vector<StreamCache::Slot> all;
  for (const StreamCache::Taken& taken : hand.take_all()) {
    EXPECT_EQ(taken.stream, taken.slot == 8 ? stream(64) : nullptr);
    all.push_back(taken.slot);
  }
  EXPECT_THAT(all, UnorderedElementsAre(6U, 7U, 8U));
  EXPECT_LT(std::find(all.begin(), all.end(), 7U), std::find(all.begin(), all.end(), 6U));
  EXPECT_TRUE(hand.empty());
  EXPECT_EQ(hand.take(nullptr, 512), std::nullopt);
}

// More sizes than there are places: those that have none are told, none is lost or mixed up.
TEST(StreamCache, AnyNumberOfSizes) {
  constexpr std::uint32_t kSizes = 5000;
  StreamCache hand;
  std::set<std::uint32_t> put;
  for (std::uint32_t i = 1; i <= kSizes; ++i) {
    if (hand.put(nullptr, Bytes{i} * 512, i)) {
      put.insert(i);
    }
  }
  EXPECT_GT(put.size(), 500U);
  EXPECT_LT(put.size(), kSizes);
  for (std::uint32_t i = 1; i <= kSizes; ++i) {
    EXPECT_EQ(hand.take(nullptr, Bytes{i} * 512),
              put.contains(i) ? std::optional(i) : std::nullopt);
  }
  EXPECT_TRUE(hand.empty());
}

class RecycledUnannounced : public CudaWorld {
 protected:
  RecycledUnannounced() {
    config.device_bytes = 64 * kMiB;
    config.poison_handles = 0;
    options.device_bytes = 64 * kMiB;
    options.host_bytes = 256 * kMiB;
    options.block_bytes = 8 * kMiB;
    options.pinned_piece_bytes = 8 * kMiB;
    options.bypass_after = 4;
    options.bypass_after_at_most = 4;
  }
  void SetUp() override {
    open(policy);
    on = stream();
    heap = std::make_unique<DeviceHeap>(*platform);
  }
  void TearDown() override {
    synchronize(on);
    whole();
    heap.reset();
    CudaWorld::TearDown();
  }
  std::uint64_t allocate_on(CuStream stream, Bytes bytes) {
    const Result<std::uint64_t> made = heap->allocate(bytes, stream);
    EXPECT_TRUE(made) << made.error().message;
    return made.value_or(0);
  }
  void use(std::uint64_t address, Bytes bytes) {
    const CudaOperand operand{.address = address, .bytes = bytes};
    EXPECT_EQ(issue(on, {&operand, 1}, "use", false,
                    [&] { return launch(test::kernels().fill, on, operand.address, 8, 1); }),
              CuResult::kSuccess);
  }
  std::uint64_t used(Bytes bytes) {
    const std::uint64_t address = allocate_on(on, bytes);
    use(address, bytes);
    return address;
  }
  // So many of 8 MiB, used until nobody has to be told any more.
  std::vector<std::uint64_t> settled(std::size_t count) {
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(used(kEach));
    }
    platform->wait_until_idle();
    become_quiet(all[0]);
    return all;
  }
  void become_quiet(std::uint64_t address) {
    bool quiet = false;
    for (int i = 0; i < 100 && !quiet; ++i) {
      use(address, kEach);
      synchronize(on);
      quiet = platform->bypass().begin_bypassed(on);
      if (quiet) {
        platform->bypass().end_bypassed();
      }
    }
    EXPECT_TRUE(quiet);
  }
  [[nodiscard]] bool lives(std::uint64_t address) const {
    return platform->memory().allocation_of(address).has_value();
  }

  static constexpr Bytes kEach = 8 * kMiB;
  Lookahead policy;
  CuStream on = nullptr;
  std::unique_ptr<DeviceHeap> heap;
};

TEST_F(RecycledUnannounced, WhereAllFitsWithRoom) {
  const std::vector<std::uint64_t> all = settled(3);
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_TRUE(lives(all[1]));
  EXPECT_EQ(heap->bytes_of(all[1]), std::nullopt);
  EXPECT_FALSE(heap->free(all[1], on));
  EXPECT_EQ(heap->usage().used_bytes, 2 * kEach);
  EXPECT_EQ(heap->usage().reserved_bytes, 3 * kEach);
  EXPECT_FALSE(heap->describe(all[1]));
  EXPECT_TRUE(heap->describe(all[2]));
  heap->reset_used_high();
  EXPECT_EQ(allocate_on(on, kEach - 5), all[1]);
  EXPECT_TRUE(heap->describe(all[1]));
  EXPECT_EQ(heap->bytes_of(all[1]), kEach - 5);
  EXPECT_EQ(heap->usage().used_bytes, 3 * kEach);
  EXPECT_EQ(heap->usage().used_high_bytes, 3 * kEach);
}

// A sixteenth of 64 MiB must be free.
TEST_F(RecycledUnannounced, NotWhereThereIsLittleRoom) {
  std::vector<std::uint64_t> all = settled(7);
  all.push_back(used(4 * kMiB));
  become_quiet(all[0]);
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_TRUE(lives(all[1]));
  all.push_back(used(2 * kMiB));
  become_quiet(all[0]);
  EXPECT_TRUE(heap->free(all[2], on));
  EXPECT_FALSE(lives(all[1]));
  EXPECT_FALSE(lives(all[2]));
}

// Small ones share frames, which may be nearly empty.
TEST_F(RecycledUnannounced, NotWhereFramesHaveLittleRoom) {
  constexpr Bytes kHalf = kMiB + 512;
  std::vector<std::uint64_t> all = settled(4);
  for (int i = 0; i < 15; ++i) {
    all.push_back(used(kHalf));
  }
  become_quiet(all[0]);
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_FALSE(lives(all[1]));
}

TEST_F(RecycledUnannounced, NotToAnotherStream) {
  const std::vector<std::uint64_t> all = settled(3);
  const CuStream other = stream();
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_NE(allocate_on(other, kEach), all[1]);
  EXPECT_FALSE(lives(all[1]));  // somebody needed memory: what is dead is told before
}

// Another stream than the one that it was allocated on, or none.
TEST_F(RecycledUnannounced, NotByAnotherStream) {
  const std::vector<std::uint64_t> all = settled(4);
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_TRUE(heap->free(all[2], stream()));
  EXPECT_FALSE(lives(all[1]));
  EXPECT_FALSE(lives(all[2]));
  EXPECT_EQ(heap->usage().reserved_bytes, 3 * kEach);
  become_quiet(all[0]);
  EXPECT_TRUE(heap->free(all[3], std::nullopt));
  EXPECT_FALSE(lives(all[3]));
  EXPECT_EQ(heap->usage().reserved_bytes, 2 * kEach);
}

// What was given to a smaller one: it is at hand for who asks for as little, and has its own size
// again when it is told of.
TEST_F(RecycledUnannounced, WhatIsMoreThanWasAskedFor) {
  const std::uint64_t first = used(kEach);
  EXPECT_TRUE(heap->free(used(14 * kMiB), on));
  heap->trim_to(0);  // so that the next is none by which the program grows
  EXPECT_TRUE(heap->free(used(16 * kMiB), on));
  const std::uint64_t larger = used(14 * kMiB);
  ASSERT_EQ(platform->memory().allocation_of(larger)->bytes, 16 * kMiB);
  become_quiet(first);
  EXPECT_TRUE(heap->free(larger, on));
  EXPECT_TRUE(lives(larger));
  EXPECT_EQ(heap->usage().reserved_bytes, kEach + 16 * kMiB);
  EXPECT_EQ(allocate_on(on, 14 * kMiB), larger);
  EXPECT_TRUE(heap->free(larger, on));
  heap->trim_to(64 * kMiB);
  EXPECT_FALSE(lives(larger));
  EXPECT_EQ(heap->usage().reserved_bytes, kEach + 16 * kMiB);
  EXPECT_EQ(allocate_on(on, 16 * kMiB), larger);
}

TEST_F(RecycledUnannounced, NotWhereLaunchesAreWrittenDown) {
  heap->always_tell();
  const std::vector<std::uint64_t> all = settled(3);
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_FALSE(lives(all[1]));
}

TEST_F(RecycledUnannounced, ToldBeforeAnythingIsAllocatedWhenTheQuietIsOver) {
  const std::vector<std::uint64_t> all = settled(4);
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_TRUE(heap->free(all[2], on));
  platform->streams().capture_begins();
  EXPECT_EQ(allocate_on(on, kEach), std::min(all[1], all[2]));
  EXPECT_FALSE(lives(std::max(all[1], all[2])));
}

// The next one who allocates or frees tells of what died meanwhile.
TEST_F(RecycledUnannounced, ToldWhenTheQuietIsOver) {
  const std::vector<std::uint64_t> all = settled(4);
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_TRUE(heap->free(all[2], on));
  platform->streams().capture_begins();
  EXPECT_TRUE(lives(all[1]));
  EXPECT_TRUE(heap->free(all[3], on));
  EXPECT_FALSE(lives(all[1]));
  EXPECT_FALSE(lives(all[2]));
  EXPECT_FALSE(lives(all[3]));
  const std::set<std::uint64_t> again = {allocate_on(on, kEach), allocate_on(on, kEach),
                                         allocate_on(on, kEach)};
  EXPECT_EQ(again, std::set<std::uint64_t>(all.begin() + 1, all.end()));
}

TEST_F(RecycledUnannounced, WhatIsDeadMakesWayAndIsNotMoved) {
  const std::vector<std::uint64_t> all = settled(7);
  for (std::size_t i = 1; i < all.size(); ++i) {
    EXPECT_TRUE(heap->free(all[i], on));
  }
  EXPECT_TRUE(lives(all[1]));
  for (int i = 0; i < 3; ++i) {
    used(16 * kMiB);
  }
  synchronize(on);
  EXPECT_EQ(moved(Tier::kDevice, Tier::kHost), 0U);
}

// Its stream ends, and with it the order in which it could be handed on.
TEST_F(RecycledUnannounced, ForgottenWithItsStream) {
  const std::vector<std::uint64_t> all = settled(3);
  EXPECT_TRUE(heap->free(all[1], on));
  heap->forget(on);
  EXPECT_FALSE(lives(all[1]));
  EXPECT_TRUE(heap->free(all[2], on));
  EXPECT_FALSE(lives(all[2]));
}

TEST_F(RecycledUnannounced, GivenUpWithWhatIsKept) {
  const std::vector<std::uint64_t> all = settled(3);
  EXPECT_TRUE(heap->free(all[1], on));
  heap->trim_to(0);
  EXPECT_FALSE(lives(all[1]));
  EXPECT_EQ(heap->usage().reserved_bytes, 2 * kEach);
}

// Sizes by turns, a bypass mode that ends again and again, and at last more than the budget holds:
// each word is where it was written.
class Random : public RecycledUnannounced, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(Random, NothingIsMixedUpHoweverOftenItEnds) {
  constexpr int kSteps = 2000;
  constexpr int kTooMuchFrom = 1500;
  struct Held {
    Buffer buffer;
    CuStream stream = nullptr;
  };
  Rng rng(GetParam());
  const CuStream other = stream();
  std::atomic<bool> ends{false};
  std::thread quiet_ends([&] {
    while (!ends) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      platform->streams().capture_begins();
    }
  });
  std::vector<Held> held;
  std::uint64_t written = 0;
  int unannounced = 0;
  for (int i = 0; i < kSteps; ++i) {
    const std::size_t most = i < kTooMuchFrom ? 7 : 20;
    if (held.size() < most && rng.below(3) != 0) {
      const Bytes bytes = (1 + rng.below(3)) * 2 * kMiB;
      const CuStream its = rng.below(4) == 0 ? other : on;
      held.push_back({.buffer = {.address = allocate_on(its, bytes), .words = bytes / 8, .seed = 0},
                      .stream = its});
      fill(its, held.back().buffer, ++written);
    } else if (!held.empty()) {
      const std::size_t at = rng.below(held.size());
      const Held gone = held[at];
      check(gone.stream, gone.buffer);
      EXPECT_TRUE(heap->free(gone.buffer.address, gone.stream));
      unannounced += lives(gone.buffer.address) ? 1 : 0;
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (rng.below(16) == 0) {
      synchronize(on);
      synchronize(other);
    }
  }
  ends = true;
  quiet_ends.join();
  for (const Held& it : held) {
    check(it.stream, it.buffer);
  }
  synchronize(on);
  synchronize(other);
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_GT(unannounced, 20);
  EXPECT_GT(moved(Tier::kDevice, Tier::kHost), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Random, testing::Values(1, 2, 3));

}  // namespace
}  // namespace spillway::cuda
