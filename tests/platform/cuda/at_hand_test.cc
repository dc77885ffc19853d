// What a heap frees and hands on where all fits, of which the platform is not told: it is told when
// it has to know, and nothing that is dead is moved for that. docs/quiet.md.
#include "runtime/cuda/at_hand.h"

#include <gmock/gmock.h>

#include <set>
#include <vector>

#include "base/rng.h"
#include "platform/cuda/cuda_world.h"
#include "policy/lookahead.h"
#include "runtime/cuda/device_heap.h"

namespace spillway::cuda {
namespace {

using testing::UnorderedElementsAre;

CuStream order(std::uintptr_t number) {
  return reinterpret_cast<CuStream>(number);  // NOLINT(performance-no-int-to-ptr): never followed
}

TEST(AtHand, WhatWasFreedLastIsTakenFirst) {
  AtHand hand;
  ASSERT_TRUE(hand.put(nullptr, 512, 3));
  ASSERT_TRUE(hand.put(nullptr, 512, 4));
  EXPECT_EQ(hand.bytes(), 1024U);
  EXPECT_EQ(hand.take(nullptr, 512), 4U);
  EXPECT_EQ(hand.take(nullptr, 512), 3U);
  EXPECT_EQ(hand.take(nullptr, 512), std::nullopt);
  EXPECT_TRUE(hand.empty());
}

TEST(AtHand, OnlyInItsOrderAndOfItsSize) {
  AtHand hand;
  ASSERT_TRUE(hand.put(order(64), 512, 1));
  EXPECT_EQ(hand.take(nullptr, 512), std::nullopt);
  EXPECT_EQ(hand.take(order(64), 1024), std::nullopt);
  EXPECT_EQ(hand.take(order(64), 512), 1U);
}

TEST(AtHand, AllOfIt) {
  AtHand hand;
  ASSERT_TRUE(hand.put(nullptr, 512, 7));
  ASSERT_TRUE(hand.put(order(64), 512, 8));
  ASSERT_TRUE(hand.put(nullptr, 1024, 9));
  EXPECT_EQ(hand.take(nullptr, 1024), 9U);
  EXPECT_THAT(hand.take_all(), UnorderedElementsAre(7U, 8U));
  EXPECT_TRUE(hand.empty());
  EXPECT_EQ(hand.take(nullptr, 512), std::nullopt);
}

// More sizes than there are places: those that have none are told, none is lost or mixed up.
TEST(AtHand, AnyNumberOfSizes) {
  constexpr std::uint32_t kSizes = 5000;
  AtHand hand;
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

class HandedOnUntold : public CudaWorld {
 protected:
  HandedOnUntold() {
    config.device_bytes = 64 * kMiB;
    config.poison_handles = 0;
    options.device_bytes = 64 * kMiB;
    options.host_bytes = 256 * kMiB;
    options.block_bytes = 8 * kMiB;
    options.pinned_piece_bytes = 8 * kMiB;
    options.quiet_after = 4;
    options.quiet_after_at_most = 4;
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
    for (int i = 0; i < 100 && !platform->hands_on_untold(0); ++i) {
      use(address, kEach);
      synchronize(on);
    }
    EXPECT_TRUE(platform->hands_on_untold(0));
  }
  [[nodiscard]] bool lives(std::uint64_t address) const {
    return platform->allocation_of(address).has_value();
  }

  static constexpr Bytes kEach = 8 * kMiB;
  Lookahead policy;
  CuStream on = nullptr;
  std::unique_ptr<DeviceHeap> heap;
};

TEST_F(HandedOnUntold, WhereAllFitsWithRoom) {
  const std::vector<std::uint64_t> all = settled(3);
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_TRUE(lives(all[1]));
  EXPECT_EQ(heap->bytes_of(all[1]), std::nullopt);
  EXPECT_FALSE(heap->free(all[1], on));
  EXPECT_EQ(heap->usage().used_bytes, 2 * kEach);
  EXPECT_EQ(heap->usage().reserved_bytes, 3 * kEach);
  EXPECT_EQ(allocate_on(on, kEach - 5), all[1]);
  EXPECT_EQ(heap->bytes_of(all[1]), kEach - 5);
  EXPECT_EQ(heap->usage().used_bytes, 3 * kEach);
}

// 56 of 64 MiB are little room, though all fits.
TEST_F(HandedOnUntold, NotWhereThereIsLittleRoom) {
  const std::vector<std::uint64_t> all = settled(8);
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_FALSE(lives(all[1]));
  EXPECT_EQ(allocate_on(on, kEach), all[1]);
  EXPECT_TRUE(lives(all[1]));
}

TEST_F(HandedOnUntold, NotToAnotherStream) {
  const std::vector<std::uint64_t> all = settled(3);
  const CuStream other = stream();
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_NE(allocate_on(other, kEach), all[1]);
  EXPECT_FALSE(lives(all[1]));  // somebody needed memory: what is dead is told before
}

TEST_F(HandedOnUntold, NotWhereLaunchesAreWrittenDown) {
  heap->tell_all();
  const std::vector<std::uint64_t> all = settled(3);
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_FALSE(lives(all[1]));
}

// The next one who allocates or frees tells of what died meanwhile.
TEST_F(HandedOnUntold, ToldWhenTheQuietIsOver) {
  const std::vector<std::uint64_t> all = settled(4);
  EXPECT_TRUE(heap->free(all[1], on));
  EXPECT_TRUE(heap->free(all[2], on));
  platform->capture_begins();
  EXPECT_TRUE(lives(all[1]));
  EXPECT_TRUE(heap->free(all[3], on));
  EXPECT_FALSE(lives(all[1]));
  EXPECT_FALSE(lives(all[2]));
  EXPECT_FALSE(lives(all[3]));
  const std::set<std::uint64_t> again = {allocate_on(on, kEach), allocate_on(on, kEach),
                                         allocate_on(on, kEach)};
  EXPECT_EQ(again, std::set<std::uint64_t>(all.begin() + 1, all.end()));
}

TEST_F(HandedOnUntold, WhatIsDeadMakesWayAndIsNotMoved) {
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
TEST_F(HandedOnUntold, ForgottenWithItsStream) {
  const std::vector<std::uint64_t> all = settled(3);
  EXPECT_TRUE(heap->free(all[1], on));
  heap->forget(on);
  EXPECT_FALSE(lives(all[1]));
  EXPECT_TRUE(heap->free(all[2], on));
  EXPECT_FALSE(lives(all[2]));
}

TEST_F(HandedOnUntold, GivenUpWithWhatIsKept) {
  const std::vector<std::uint64_t> all = settled(3);
  EXPECT_TRUE(heap->free(all[1], on));
  heap->trim_to(0);
  EXPECT_FALSE(lives(all[1]));
  EXPECT_EQ(heap->usage().reserved_bytes, 2 * kEach);
}

// Sizes by turns, a quiet that ends again and again, and at last more than the budget holds: each
// word is where it was written.
class Random : public HandedOnUntold, public testing::WithParamInterface<std::uint64_t> {};

TEST_P(Random, NothingIsMixedUpHoweverOftenItEnds) {
  constexpr int kSteps = 2000;
  constexpr int kTooMuchFrom = 1500;
  Rng rng(GetParam());
  std::vector<Buffer> held;
  std::uint64_t written = 0;
  int untold = 0;
  for (int i = 0; i < kSteps; ++i) {
    const std::size_t most = i < kTooMuchFrom ? 7 : 20;
    if (held.size() < most && rng.below(3) != 0) {
      const Bytes bytes = (1 + rng.below(3)) * 2 * kMiB;
      held.push_back({.address = allocate_on(on, bytes), .words = bytes / 8, .seed = 0});
      fill(on, held.back(), ++written);
    } else if (!held.empty()) {
      const std::size_t at = rng.below(held.size());
      const Buffer gone = held[at];
      check(on, gone);
      EXPECT_TRUE(heap->free(gone.address, on));
      untold += lives(gone.address) ? 1 : 0;
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (rng.below(16) == 0) {
      synchronize(on);
    }
    if (rng.below(200) == 0) {
      platform->capture_begins();
    }
  }
  for (const Buffer& buffer : held) {
    check(on, buffer);
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  EXPECT_GT(untold, 100);
  EXPECT_GT(moved(Tier::kDevice, Tier::kHost), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Random, testing::Values(1, 2, 3));

}  // namespace
}  // namespace spillway::cuda
