// malloc over a space: addresses that come back to who had them, and frames that go where they are
// needed.
#include "heap/large_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "platform/host/faults/userfault.h"
#include "runtime/run/program_space.h"

namespace spillway {
namespace {

class LargeHeapTest : public ::testing::Test {
 protected:
  void open(Bytes device_bytes, const std::string& policy = "deepum") {
    if (const host::UserfaultSupport support = host::userfault_support();
        !support.write_protection || !support.kernel_faults) {
      GTEST_SKIP() << support.reason;
    }
    SpaceOptions options;
    options.device_bytes = device_bytes;
    options.host_bytes = 512 * kMiB;
    options.policy = policy;
    Result<std::unique_ptr<ProgramSpace>> space = ProgramSpace::open(options);
    ASSERT_TRUE(space) << space.error().message;
    space_ = std::move(*space);
    heap_ = std::make_unique<LargeHeap>(space_->platform());
  }

  char* allocate(Bytes bytes, std::uint64_t place = LargeHeap::kAnyPlace) {
    bool zeros = false;
    return allocate(bytes, place, zeros);
  }
  char* allocate(Bytes bytes, std::uint64_t place, bool& zeros) {
    Error error;
    const bool known = place != LargeHeap::kAnyPlace;
    void* const start = heap_->allocate(bytes, {.place = place, .writes_all = known}, zeros, error);
    EXPECT_NE(start, nullptr) << error.message;
    return static_cast<char*>(start);
  }
  // As an operator does with what it has asked for.
  char* fill(Bytes bytes, std::uint64_t place, int value) {
    char* const start = allocate(bytes, place);
    if (start != nullptr) {
      std::memset(start, value, bytes);
    }
    return start;
  }
  [[nodiscard]] Bytes resident_bytes() const {
    return space_->platform().stats().used_bytes[index_of(Tier::kDevice)];
  }
  void expect_nothing_moved() const {
    const ProgramStats stats = space_->platform().stats();
    EXPECT_EQ(stats.engine.moved(Tier::kDevice, Tier::kHost), 0U);
    EXPECT_EQ(stats.engine.moved(Tier::kHost, Tier::kDevice), 0U);
    const Status whole = space_->platform().check_invariants();
    EXPECT_TRUE(whole) << whole.error().message;
  }

  std::unique_ptr<ProgramSpace> space_;
  std::unique_ptr<LargeHeap> heap_;
};

TEST_F(LargeHeapTest, KnowsWhatItGaveAndTakesItBackOnce) {
  open(64 * kMiB);
  if (!heap_) return;
  char* const start = allocate(kMiB + 1);
  ASSERT_NE(start, nullptr);
  EXPECT_EQ(heap_->usable_bytes(start), kMiB + 64 * kKiB);
  EXPECT_EQ(heap_->usable_bytes(start + kPageBytes), 0U);
  EXPECT_FALSE(heap_->free(start + kPageBytes));
  EXPECT_TRUE(heap_->free(start));
  EXPECT_FALSE(heap_->free(start));
  EXPECT_EQ(heap_->usable_bytes(start), 0U);
}

TEST_F(LargeHeapTest, SaysWhetherMemoryHoldsZeros) {
  open(64 * kMiB);
  if (!heap_) return;
  bool zeros = true;
  char* const fresh = allocate(4 * kMiB, 7, zeros);
  EXPECT_TRUE(zeros);
  for (Bytes at = 0; at < 4 * kMiB; at += kPageBytes) {
    ASSERT_EQ(fresh[at], 0) << at;
  }
  std::memset(fresh, 1, 4 * kMiB);
  EXPECT_TRUE(heap_->free(fresh));
  zeros = true;
  EXPECT_EQ(allocate(4 * kMiB, 7, zeros), fresh);
  EXPECT_FALSE(zeros);
}

// The space's reason, and nothing is lost by it.
TEST_F(LargeHeapTest, SaysWhyThereIsNoMemory) {
  open(64 * kMiB);
  if (!heap_) return;
  bool zeros = false;
  Error error;
  EXPECT_EQ(heap_->allocate(8 * kGiB, {}, zeros, error), nullptr);
  EXPECT_NE(error.message.find("out of memory"), std::string::npos) << error.message;
  char* const most = allocate(512 * kMiB);
  EXPECT_TRUE(heap_->free(most));
  char* const other = allocate(500 * kMiB);
  EXPECT_EQ(heap_->allocate(512 * kMiB, {}, zeros, error), nullptr);
  EXPECT_TRUE(heap_->free(other));
  EXPECT_EQ(allocate(512 * kMiB), most);  // what could not be had was kept
}

TEST_F(LargeHeapTest, TheSameAskersGetTheSameAddresses) {
  open(256 * kMiB);
  if (!heap_) return;
  constexpr std::uint64_t kAskers = 8;
  std::vector<char*> first;
  char* survivor = nullptr;
  for (int round = 0; round < 4; ++round) {
    std::vector<char*> starts;
    for (std::uint64_t asker = 1; asker <= kAskers; ++asker) {
      starts.push_back(fill((1 + asker / 2) * kMiB, asker, round));
    }
    // A tensor that stays, of a size that others have, and of another size each round.
    if (survivor != nullptr) {
      EXPECT_TRUE(heap_->free(survivor));
    }
    survivor = fill((3 + static_cast<Bytes>(round)) * kMiB, kAskers + 1, round);
    if (round == 0) {
      first = starts;
    }
    EXPECT_EQ(starts, first) << "round " << round;
    for (char* const start : starts) {
      EXPECT_TRUE(heap_->free(start));
    }
  }
  expect_nothing_moved();
}

// The budget is a limit, not a target: one alive at a time, each of another size.
TEST_F(LargeHeapTest, MemoryOfOtherSizesGetsTheFramesOfTheDead) {
  open(512 * kMiB);
  if (!heap_) return;
  constexpr Bytes kLargest = 24 * kMiB;
  constexpr Bytes kSlack = 16 * kMiB;
  for (std::uint64_t i = 0; i < 64; ++i) {
    const Bytes bytes = kLargest - (i * 37 % 64) * 192 * kKiB;
    char* const start = fill(bytes, 1 + i, static_cast<int>(i));
    EXPECT_LE(resident_bytes(), kLargest + kSlack) << i;
    EXPECT_TRUE(heap_->free(start));
  }
  expect_nothing_moved();
}

// Their frames stay where they are, and nobody stops.
TEST_F(LargeHeapTest, SmallerMemoryTakesThePlaceOfWhatWasFreedLast) {
  open(64 * kMiB);
  if (!heap_) return;
  char* const large = fill(10 * kMiB, LargeHeap::kAnyPlace, 1);
  ASSERT_NE(large, nullptr);
  heap_->free(large);
  const std::uint64_t before = space_->platform().stats().page_faults;
  for (const Bytes bytes : {3 * kMiB / 2, 5 * kMiB, 10 * kMiB, 9 * kMiB}) {
    char* const start = fill(bytes, LargeHeap::kAnyPlace, 2);
    EXPECT_EQ(start, large) << bytes;
    EXPECT_EQ(heap_->usable_bytes(start), bytes);
    EXPECT_EQ(space_->platform().stats().used_bytes[index_of(Tier::kDevice)], 10 * kMiB);
    EXPECT_TRUE(heap_->free(start));
  }
  EXPECT_EQ(space_->platform().stats().page_faults, before);
  EXPECT_NE(fill(kMiB, LargeHeap::kAnyPlace, 3), large);  // that would be too little of it
  expect_nothing_moved();
}

// Small memory that lives while the large comes again: it does not send that from place to place.
TEST_F(LargeHeapTest, SizesThatComeTogetherGetPlacesOfTheirOwn) {
  open(256 * kMiB);
  if (!heap_) return;
  const auto round = [&] {
    char* const first = fill(50 * kMiB, LargeHeap::kAnyPlace, 1);
    heap_->free(first);
    char* const small = fill(10 * kMiB, LargeHeap::kAnyPlace, 2);
    char* const again = fill(50 * kMiB, LargeHeap::kAnyPlace, 3);
    heap_->free(again);
    heap_->free(small);
  };
  for (int i = 0; i < 4; ++i) round();
  const std::uint64_t before = space_->platform().stats().page_faults;
  for (int i = 0; i < 4; ++i) round();
  EXPECT_EQ(space_->platform().stats().page_faults, before);
  expect_nothing_moved();
}

// What lies behind it is nobody's: it is not promised, and its frames are for others.
TEST_F(LargeHeapTest, WhatIsLeftOfAPlaceIsForOthers) {
  open(16 * kMiB);
  if (!heap_) return;
  char* const large = fill(14 * kMiB, LargeHeap::kAnyPlace, 1);
  ASSERT_NE(large, nullptr);
  heap_->free(large);
  char* const small = fill(4 * kMiB, LargeHeap::kAnyPlace, 2);
  EXPECT_EQ(small, large);
  char* const other = fill(10 * kMiB, LargeHeap::kAnyPlace, 3);
  EXPECT_TRUE(std::all_of(small, small + 4 * kMiB, [](char one) { return one == 2; }));
  EXPECT_TRUE(std::all_of(other, other + 10 * kMiB, [](char one) { return one == 3; }));
  expect_nothing_moved();
  heap_->free(other);
  // 16 MiB and 512 MiB below, less 16 MiB in which victims can go.
  char* const rest = allocate(500 * kMiB);
  EXPECT_NE(rest, nullptr);
}

// Of every last block a part is wasted: not more than a block in all, or a little of what is used.
TEST_F(LargeHeapTest, LittleIsWastedInLargerPlaces) {
  open(64 * kMiB);
  if (!heap_) return;
  constexpr std::size_t kCount = 6;
  std::vector<char*> large;
  for (std::size_t i = 0; i < kCount; ++i) {
    large.push_back(fill(4 * kMiB, LargeHeap::kAnyPlace, 1));
  }
  for (char* const one : large) heap_->free(one);
  std::size_t taken = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    char* const start = fill(17 * kMiB / 16, LargeHeap::kAnyPlace, 2);
    taken += static_cast<std::size_t>(std::count(large.begin(), large.end(), start));
  }
  EXPECT_EQ(taken, 2U);
  expect_nothing_moved();
}

// Its pages can be cleared and given back up to its end, and not beyond.
TEST_F(LargeHeapTest, PagesOfALargerPlace) {
  open(64 * kMiB);
  if (!heap_) return;
  char* const large = fill(10 * kMiB, LargeHeap::kAnyPlace, 1);
  ASSERT_NE(large, nullptr);
  heap_->free(large);
  constexpr Bytes kBytes = 3 * kMiB;
  char* const start = fill(kBytes, LargeHeap::kAnyPlace, 2);
  ASSERT_EQ(start, large);
  const LargeHeap::Uncleared left = heap_->clear({.start = start, .bytes = kBytes});
  for (const LargeHeap::Part& part : left.parts) {
    std::memset(part.start, 0, part.bytes);
  }
  EXPECT_TRUE(std::all_of(start, start + kBytes, [](char one) { return one == 0; }));
  heap_->give_up({.start = start + 2 * kMiB, .bytes = kMiB});
  EXPECT_TRUE(heap_->has_all({.start = start, .bytes = 2 * kMiB}));
  EXPECT_FALSE(heap_->has_all({.start = start + 2 * kMiB, .bytes = kPageBytes}));
  heap_->give_up({.start = start, .bytes = 2 * kMiB});
  EXPECT_EQ(heap_->usable_bytes(start), 0U);
  expect_nothing_moved();
}

// What operators ask for is there before they write it.
TEST_F(LargeHeapTest, AskersThatAreKnownDoNotStop) {
  open(128 * kMiB);
  if (!heap_) return;
  for (std::uint64_t i = 0; i < 32; ++i) {
    char* const start = fill((2 + i) * kMiB, 1 + i, 1);
    EXPECT_TRUE(heap_->free(start));
  }
  EXPECT_EQ(space_->platform().stats().page_faults, 0U);
  EXPECT_EQ(space_->platform().stats().write_faults, 0U);
  char* const unknown = fill(40 * kMiB, LargeHeap::kAnyPlace, 1);
  EXPECT_TRUE(heap_->free(unknown));
  EXPECT_GT(space_->platform().stats().page_faults, 0U);  // it may never be touched
}

// Of other sizes each time: frames are found where the last ones were.
TEST_F(LargeHeapTest, AskersOfChangingSizesFindFrames) {
  open(128 * kMiB);
  if (!heap_) return;
  char* const largest = fill(40 * kMiB, 1, 1);
  EXPECT_TRUE(heap_->free(largest));
  for (std::uint64_t i = 0; i < 8; ++i) {
    char* const start = fill((39 - 2 * i) * kMiB, 2 + i % 2, 2);
    EXPECT_EQ(start, largest);
    EXPECT_TRUE(heap_->free(start));
  }
  EXPECT_EQ(space_->platform().stats().page_faults, 0U);
  EXPECT_LE(resident_bytes(), 41 * kMiB);
  expect_nothing_moved();
}

// A budget just above what is alive: dead memory never competes with it, whatever the policy
// learns.
TEST_F(LargeHeapTest, NothingMovesWhenWhatIsAliveFits) {
  for (const char* const policy : {"base_uvm", "deepum", "g10"}) {
    open(68 * kMiB, policy);
    if (!heap_) return;
    char* const weights = fill(32 * kMiB, 1, 3);
    for (std::uint64_t round = 0; round < 12; ++round) {
      std::vector<char*> starts;
      for (std::uint64_t i = 0; i < 4; ++i) {
        space_->platform().mark_launch({.first = 1 + i, .second = 1}, "forward", false);
        starts.push_back(fill((4 + (round + i) % 4) * kMiB, 2 + i, static_cast<int>(round)));
      }
      for (char* const start : starts) {
        space_->platform().mark_launch({.first = 100 + round, .second = 1}, "backward", false);
        ASSERT_EQ(start[kMiB], static_cast<char>(round));
        EXPECT_TRUE(heap_->free(start));
      }
      EXPECT_EQ(weights[round * kMiB], 3);
      static_cast<void>(space_->iteration_ended());
    }
    EXPECT_LE(resident_bytes(), 68 * kMiB);
    expect_nothing_moved();
    heap_.reset();
    space_.reset();
  }
}

// Addresses, too, are kept only as long as there is hope: as many as several times what is in use
// at once, and what a free run of them is too short for.
TEST_F(LargeHeapTest, SizesThatNeverComeAgainAreForgotten) {
  open(64 * kMiB);
  if (!heap_) return;
  constexpr Bytes kLargest = 16 * kMiB;
  char* lowest = nullptr;
  char* highest = nullptr;
  for (Bytes i = 0; i < 200; ++i) {
    char* const start = allocate(kLargest - (i * 83 % 200) * 64 * kKiB);
    lowest = lowest == nullptr ? start : std::min(lowest, start);
    highest = std::max(highest, start);
    EXPECT_TRUE(heap_->free(start));
  }
  EXPECT_LE(static_cast<Bytes>(highest - lowest), 8 * kLargest);
}

}  // namespace
}  // namespace spillway
