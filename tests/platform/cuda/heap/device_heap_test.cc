// Where the memory of a training loop lies, on the fake driver: sizes that are near share addresses
// under pressure, and where all fits each has what it asks for; what stays has no more than that.
#include "heap/device_heap.h"

#include <gmock/gmock.h>

#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "platform/cuda/cuda_world.h"
#include "policy/lookahead.h"

namespace spillway::cuda {
namespace {

using testing::IsSubsetOf;
using Addresses = std::set<std::uint64_t>;

constexpr Bytes kSaved = 18 * kMiB;
constexpr Bytes kGradient = 20 * kMiB;
constexpr int kEach = 6;

class DeviceHeapTest : public CudaWorld {
 protected:
  DeviceHeapTest() {
    config.device_bytes = kGiB;
    config.poison_handles = 0;
    options.host_bytes = kGiB;
    options.block_bytes = 64 * kMiB;
    options.pinned_piece_bytes = 64 * kMiB;
    options.address_bytes = 64 * kGiB;
  }

  std::uint64_t use(Bytes bytes) {
    const Result<std::uint64_t> made = heap->allocate(bytes, on);
    EXPECT_TRUE(made) << made.error().message;
    const CudaOperand operand{.address = made.value_or(0), .bytes = bytes};
    EXPECT_EQ(issue(on, {&operand, 1}, "use", false,
                    [&] { return launch(test::kernels().fill, on, operand.address, 8, 1); }),
              CuResult::kSuccess);
    return operand.address;
  }
  // So many live, and die; returns where they lay.
  Addresses live_and_die(Bytes bytes) {
    Addresses addresses;
    for (int i = 0; i < kEach; ++i) {
      addresses.insert(use(bytes));
    }
    for (const std::uint64_t address : addresses) {
      EXPECT_EQ(heap->bytes_of(address), bytes);
      EXPECT_TRUE(heap->free(address, on));
    }
    EXPECT_EQ(addresses.size(), std::size_t{kEach});
    return addresses;
  }

  struct Where {
    Addresses saved;
    Addresses gradients;
  };
  // Weights stay, a forward pass saves, a backward pass makes gradients. The last of several steps.
  Where steps(Bytes budget_bytes, int count) {
    options.device_bytes = budget_bytes;
    open(policy);
    on = stream();
    heap = std::make_unique<DeviceHeap>(*platform);
    std::vector<std::uint64_t> weights;
    for (int i = 0; i < kEach; ++i) {
      weights.push_back(use(kGradient));
    }
    Where where;
    for (int i = 0; i < count; ++i) {
      where.saved = live_and_die(kSaved);
      where.gradients = live_and_die(kGradient);
      synchronize(on);
    }
    EXPECT_EQ(heap->usage().used_bytes, kEach * kGradient);
    for (const std::uint64_t address : weights) {
      EXPECT_TRUE(heap->free(address, on));
    }
    EXPECT_EQ(heap->usage().used_bytes, 0U);
    whole();
    heap.reset();
    return where;
  }

  static void expect_apart(const Where& where) {
    for (const std::uint64_t address : where.saved) {
      EXPECT_FALSE(where.gradients.contains(address));
    }
  }

  Lookahead policy;
  CuStream on = nullptr;
  std::unique_ptr<DeviceHeap> heap;
};

TEST_F(DeviceHeapTest, SizesThatAreNearShareAddressesUnderPressure) {
  const Where where = steps(2 * kEach * kGradient - 24 * kMiB, 8);
  EXPECT_THAT(where.saved, IsSubsetOf(where.gradients));
}

// The first steps show what comes and goes; until then all have what they ask for.
TEST_F(DeviceHeapTest, NotBeforeItIsKnownWhatComesAndGoes) {
  expect_apart(steps(2 * kEach * kGradient - 24 * kMiB, 4));
}

// A first step that fits, and has allocated often enough since its highest use to look like one of
// many. What its activations leave would suit an optimizer's states, and be more than they ask for
// for good.
class AfterAFirstStep : public DeviceHeapTest {
 protected:
  static constexpr int kWeights = 8;
  static constexpr Bytes kActivation = 36 * kMiB;
  static constexpr Bytes kPassing = 22 * kMiB;

  void SetUp() override {
    options.device_bytes = 400 * kMiB;
    open(policy);
    on = stream();
    heap = std::make_unique<DeviceHeap>(*platform);
    for (int i = 0; i < kWeights; ++i) {
      (void)use(kGradient);
    }
    EXPECT_TRUE(heap->free(use(kPassing), on));
    live_and_die(kActivation);
    come_and_go(20);  // and it has allocated more than twice as often as at its highest use
    // What was there once and has been given up since.
    heap->trim_to(kWeights * kGradient + kEach * kActivation + 4 * kMiB);
  }
  void TearDown() override {
    synchronize(on);
    whole();
    heap.reset();
    DeviceHeapTest::TearDown();
  }
  void come_and_go(int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(heap->free(use(4 * kMiB), on));
    }
  }
  // That one more of this size has.
  Bytes given(Bytes bytes) {
    const auto range = platform->memory().allocation_of(use(bytes));
    return range ? range->bytes : 0;
  }
};

TEST_F(AfterAFirstStep, WhatItGrowsByHasWhatItAsksFor) {
  for (int i = 0; i < kEach; ++i) {
    EXPECT_EQ(given(kGradient), kGradient);
  }
}

TEST_F(AfterAFirstStep, WhatWasThereBeforeMayHaveMore) { EXPECT_EQ(given(kPassing), kActivation); }

// While nobody is told of what is freed and handed on, it looks as if sizes lived together that do
// not: that must not count when the program grows beyond its budget.
TEST_F(DeviceHeapTest, SizesThatAreNearAreKnownAfterAQuiet) {
  options.device_bytes = 640 * kMiB;
  options.bypass_after = 4;
  open(policy);
  on = stream();
  heap = std::make_unique<DeviceHeap>(*platform);
  constexpr Bytes kStays = 32 * kMiB;
  std::vector<std::uint64_t> stays;
  for (int i = 0; i < 10; ++i) {
    stays.push_back(use(kStays));
  }
  bool unannounced = false;
  for (int i = 0; i < 8; ++i) {
    live_and_die(kSaved);
    live_and_die(kGradient);
    synchronize(on);
    unannounced = unannounced || platform->memory().recycles_unannounced(0);
  }
  EXPECT_TRUE(unannounced);
  for (int i = 0; i < 7; ++i) {
    stays.push_back(use(kStays));
  }
  Where where;
  for (int i = 0; i < 50; ++i) {
    where.saved = live_and_die(kSaved);
    where.gradients = live_and_die(kGradient);
    synchronize(on);
  }
  EXPECT_THAT(where.saved, IsSubsetOf(where.gradients));
  for (const std::uint64_t address : stays) {
    EXPECT_TRUE(heap->free(address, on));
  }
  synchronize(on);
  whole();
  heap.reset();
}

// A program in an ample budget that takes turns with several shapes: its sizes together have
// several times what it has in use at once.
class InAnAmpleBudget : public DeviceHeapTest {
 protected:
  static constexpr Bytes kStays = 128 * kMiB;
  static constexpr Bytes kMostUsed = kStays + kEach * 36 * kMiB;

  void SetUp() override {
    options.device_bytes = kGiB;
    options.bypass_after = 4;
    open(policy);
    on = stream();
    heap = std::make_unique<DeviceHeap>(*platform);
    stays = use(kStays);
  }
  void TearDown() override {
    EXPECT_EQ(moved(Tier::kDevice, Tier::kHost), 0U);
    synchronize(on);
    whole();
    heap.reset();
    DeviceHeapTest::TearDown();
  }
  // One step of each shape; handles made in it.
  std::uint64_t round() {
    const std::uint64_t before = counters().creates;
    for (const Bytes size : {36U, 26U, 30U, 20U, 34U, 24U}) {
      const Addresses forward = live_and_die(size * kMiB);
      const Addresses backward = live_and_die((size - 4) * kMiB);
      synchronize(on);
    }
    return counters().creates - before;
  }
  // Once the driver thread has come to it.
  void expect_device_use_at_most(Bytes bytes) {
    for (int i = 0; i < 500 && counters().handle_bytes > bytes; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      synchronize(on);
    }
    EXPECT_LE(counters().handle_bytes, bytes);
  }
  std::uint64_t stays = 0;
};

TEST_F(InAnAmpleBudget, AProgramComesToRestWithLittleMoreThanItUses) {
  constexpr int kAtRest = 4;
  int at_rest = 0;
  for (int i = 0; i < 60 && at_rest < kAtRest; ++i) {
    at_rest = round() == 0 ? at_rest + 1 : 0;
  }
  EXPECT_EQ(at_rest, kAtRest);
  // At most as much again, and a sixteenth that is too much; all sizes together have five times it.
  expect_device_use_at_most(kMostUsed / 16 * 33);
}

// As `cudnn.benchmark` does before each trial. It uses none of it.
TEST_F(InAnAmpleBudget, WhoTakesAllForAMomentChangesNothing) {
  int rounds = 0;
  while ((round() > 0 || !platform->memory().recycles_unannounced(0)) && ++rounds < 60) {
  }
  EXPECT_LT(rounds, 60);
  const DeviceHeap::Usage before = heap->usage();
  const Bytes peak_bytes = platform->stats().live_peak_bytes;
  std::uint64_t made = 0;
  for (const Bytes less : {0 * kMiB, 2 * kMiB, 4 * kMiB}) {
    const Result<std::uint64_t> all = heap->allocate(kGiB - less, on);
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_TRUE(heap->free(*all, on));
    const Result<std::uint64_t> in_no_order = heap->allocate(kGiB - less, std::nullopt);
    ASSERT_TRUE(in_no_order) << in_no_order.error().message;
    EXPECT_TRUE(heap->free(*in_no_order, std::nullopt));
    made += round();
  }
  EXPECT_EQ(made, 0U);
  EXPECT_TRUE(platform->memory().recycles_unannounced(0));
  EXPECT_EQ(heap->usage().used_high_bytes, before.used_high_bytes);
  EXPECT_EQ(heap->usage().reserved_high_bytes, before.reserved_high_bytes);
  EXPECT_EQ(platform->stats().live_peak_bytes, peak_bytes);
  // Not all: the program knows that it had it.
  const Result<std::uint64_t> half = heap->allocate(kGiB / 2, on);
  ASSERT_TRUE(half) << half.error().message;
  const Bytes with_it = heap->usage().used_bytes;
  EXPECT_TRUE(heap->free(*half, on));
  EXPECT_EQ(heap->usage().used_high_bytes, with_it);
  // Nor where there is little left.
  const std::uint64_t most = use(kGiB / 16 * 11);
  const Bytes beside = heap->usage().used_bytes;
  const Result<std::uint64_t> little = heap->allocate(132 * kMiB, on);
  ASSERT_TRUE(little) << little.error().message;
  EXPECT_TRUE(heap->free(*little, on));
  EXPECT_EQ(heap->usage().used_high_bytes, beside + 132 * kMiB);
  EXPECT_TRUE(heap->free(most, on));
}

// A launch that was on its way when it was allocated, and names it by an old address, uses it.
TEST_F(DeviceHeapTest, WhatALaunchHasUsedCannotBeUndone) {
  constexpr Bytes kBytes = 128 * kMiB;
  options.device_bytes = kGiB;
  options.bypass_after = 3;
  open(policy);
  const Result<std::uint64_t> before = platform->memory().allocate(kBytes);
  ASSERT_TRUE(before);
  const CudaOperand first{.address = *before, .bytes = kBytes};
  const CudaOperand next{.address = *before + kBytes + options.block_bytes, .bytes = kBytes};
  const auto begin = [&](const CudaOperand& operand) {
    return platform->launches().before_launch({.stream = nullptr,
                                               .hash = {},
                                               .name = "it",
                                               .operands = {&operand, 1},
                                               .needs_mapping = true});
  };
  platform->launches().after_launch(begin(first), true);
  const std::uint64_t held = begin(first);  // and the null stream's order with it
  std::thread other([&] { platform->launches().after_launch(begin(next), true); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const Result<std::uint64_t> newest = platform->memory().allocate(kBytes);
  ASSERT_TRUE(newest);
  EXPECT_EQ(*newest, next.address);
  platform->launches().after_launch(held, true);
  other.join();
  EXPECT_FALSE(platform->memory().undo_allocate(*newest));
  platform->memory().free(*newest);
  platform->memory().free(*before);
  synchronize(nullptr);
  whole();
}

// Where it is used, or something else allocated meanwhile, it counts.
TEST_F(InAnAmpleBudget, WhatIsUsedForAMomentCounts) {
  constexpr Bytes kMuch = kGiB - kStays;
  EXPECT_TRUE(heap->free(use(kMuch), on));
  EXPECT_EQ(heap->usage().used_high_bytes, kGiB);
  EXPECT_EQ(platform->stats().live_peak_bytes, kGiB);
  const Result<std::uint64_t> much = heap->allocate(kMuch + kMiB * 2, on);
  ASSERT_TRUE(much);
  const Result<std::uint64_t> little = heap->allocate(2 * kMiB, on);
  ASSERT_TRUE(little);
  EXPECT_TRUE(heap->free(*much, on));
  EXPECT_TRUE(heap->free(*little, on));
  EXPECT_EQ(heap->usage().used_high_bytes, kGiB + 4 * kMiB);
  EXPECT_EQ(platform->stats().live_peak_bytes, kGiB + 4 * kMiB);
}

// Its limit, and what it has, which another pool's next allocation may take over.
TEST_F(InAnAmpleBudget, PoolsHaveAccountsOfTheirOwn) {
  const DeviceHeap::Usage before = heap->usage();
  const DeviceHeap::Pool small = heap->open_pool(8 * kMiB);
  const DeviceHeap::Pool large = heap->open_pool(~Bytes{0});
  const Result<std::uint64_t> first = heap->allocate(5 * kMiB, on, small);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(heap->allocate(3 * kMiB + 1, on, small));
  const Result<std::uint64_t> second = heap->allocate(3 * kMiB, on, small);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(heap->describe(*second)->pool, small);
  EXPECT_EQ(heap->usage(small).used_bytes, 8 * kMiB);
  EXPECT_EQ(heap->usage(small).reserved_bytes, 10 * kMiB);  // in sizes of the heap
  EXPECT_EQ(heap->usage(large).reserved_high_bytes, 0U);
  EXPECT_TRUE(heap->free(*second, on));
  EXPECT_EQ(heap->usage(small).used_bytes, 5 * kMiB);
  EXPECT_EQ(heap->usage(small).reserved_bytes, 10 * kMiB);
  const Result<std::uint64_t> taken = heap->allocate(3 * kMiB, on, large);
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(*taken, *second);
  EXPECT_EQ(heap->usage(small).reserved_bytes, 6 * kMiB);
  EXPECT_EQ(heap->usage(large).reserved_bytes, 4 * kMiB);
  EXPECT_EQ(heap->used_bytes(), before.used_bytes + 10 * kMiB);
  EXPECT_TRUE(heap->free(*taken, on));
  heap->trim_to(small, 0);
  EXPECT_EQ(heap->usage(large).reserved_bytes, 4 * kMiB);
  heap->trim_to(large, 0);
  EXPECT_EQ(heap->usage(large).reserved_bytes, 0U);
  // What is in use of it when it is closed is no pool's, and may be as much as there is.
  heap->close_pool(small);
  EXPECT_EQ(heap->describe(*first)->pool, DeviceHeap::kNoPool);
  EXPECT_EQ(heap->usage().used_bytes, before.used_bytes + 5 * kMiB);
  EXPECT_TRUE(heap->free(*first, on));
  EXPECT_EQ(heap->usage().used_bytes, before.used_bytes);
  const DeviceHeap::Pool again = heap->open_pool(~Bytes{0});
  EXPECT_EQ(heap->usage(again).used_high_bytes, 0U);
}

// As `torch.cuda.empty_cache()` promises: others have what nobody uses.
TEST_F(InAnAmpleBudget, WhatIsTrimmedIsGivenBackToTheDevice) {
  (void)round();
  EXPECT_GT(counters().handle_bytes, kMostUsed);
  heap->trim_to(0);
  EXPECT_EQ(heap->usage().reserved_bytes, kStays);
  // Also where something new is wanted before all of that has ended.
  const std::uint64_t next = use(4 * kMiB);
  expect_device_use_at_most(kStays + 4 * kMiB);
  EXPECT_TRUE(heap->free(next, on));
  // And taken again where it is wanted.
  const std::uint64_t made = round();
  EXPECT_GT(made, 0U);
  EXPECT_GT(counters().handle_bytes, kMostUsed);
}

// What was given to a smaller one is at hand for the next of what that asked for.
TEST_F(InAnAmpleBudget, WhatHasMoreThanItAsksForIsRecycledUnannounced) {
  const auto until_untold = [this] {
    EXPECT_TRUE(heap->free(use(4 * kMiB), on));
    for (int i = 0; i < 5000 && !platform->memory().recycles_unannounced(0); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_TRUE(heap->free(use(4 * kMiB), on));
    }
    ASSERT_TRUE(platform->memory().recycles_unannounced(0));
  };
  EXPECT_TRUE(heap->free(use(30 * kMiB), on));
  heap->trim_to(0);  // so that the next is none by which the program grows
  until_untold();
  EXPECT_TRUE(heap->free(use(40 * kMiB), on));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(heap->free(use(4 * kMiB), on));  // nor does it grow by now
  }
  const std::uint64_t smaller = use(30 * kMiB);
  EXPECT_EQ(platform->memory().allocation_of(smaller)->bytes, 40 * kMiB);
  EXPECT_EQ(heap->bytes_of(smaller), 30 * kMiB);
  until_untold();
  EXPECT_TRUE(heap->free(smaller, on));
  EXPECT_TRUE(platform->memory().allocation_of(smaller).has_value());  // nobody has been told
  EXPECT_EQ(use(30 * kMiB), smaller);
  EXPECT_EQ(heap->usage().used_bytes, kStays + 30 * kMiB);
  EXPECT_TRUE(heap->free(smaller, on));
  // Who asks for its own size has it, although it was at hand for less.
  EXPECT_EQ(use(40 * kMiB), smaller);
  EXPECT_EQ(heap->usage().reserved_bytes, kStays + 40 * kMiB + 4 * kMiB);
}

// What each size ever had in use at once fits the quarter: each has what it asks for.
TEST_F(InAnAmpleBudget, NobodyIsGivenMoreWhereAllSizesHaveRoom) {
  const std::uint64_t more_stays = use(3 * kStays);
  Where where;
  for (int i = 0; i < 8; ++i) {
    where.saved = live_and_die(kSaved);
    where.gradients = live_and_die(kGradient);
    synchronize(on);
  }
  expect_apart(where);
  EXPECT_TRUE(heap->free(more_stays, on));
}

}  // namespace
}  // namespace spillway::cuda
