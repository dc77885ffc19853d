// Where the memory of a training loop lies, on the fake driver: sizes that are near share addresses
// under pressure, and where all fits each has what it asks for; what stays has no more than that.
#include "runtime/cuda/device_heap.h"

#include <gmock/gmock.h>

#include <set>
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
    const auto range = platform->allocation_of(use(bytes));
    return range ? range->bytes : 0;
  }
};

TEST_F(AfterAFirstStep, WhatItGrowsByHasWhatItAsksFor) {
  for (int i = 0; i < kEach; ++i) {
    EXPECT_EQ(given(kGradient), kGradient);
  }
}

TEST_F(AfterAFirstStep, WhatWasThereBeforeMayHaveMore) { EXPECT_EQ(given(kPassing), kActivation); }

TEST_F(AfterAFirstStep, SoMayWhatComesWhenItSurelyRepeatsItself) {
  come_and_go(40);
  EXPECT_EQ(given(kGradient), kActivation);
}

// While nobody is told of what is freed and handed on, it looks as if sizes lived together that do
// not: that must not count when the program grows beyond its budget.
TEST_F(DeviceHeapTest, SizesThatAreNearAreKnownAfterAQuiet) {
  options.device_bytes = 384 * kMiB;
  options.quiet_after = 4;
  open(policy);
  on = stream();
  heap = std::make_unique<DeviceHeap>(*platform);
  constexpr Bytes kStays = 32 * kMiB;
  std::vector<std::uint64_t> stays;
  for (int i = 0; i < 4; ++i) {
    stays.push_back(use(kStays));
  }
  bool untold = false;
  for (int i = 0; i < 8; ++i) {
    live_and_die(kSaved);
    live_and_die(kGradient);
    synchronize(on);
    untold = untold || platform->hands_on_untold(0);
  }
  EXPECT_TRUE(untold);
  for (int i = 0; i < 5; ++i) {
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

TEST_F(DeviceHeapTest, NobodyIsGivenMoreWhereAllFits) {
  expect_apart(steps(3 * kEach * kGradient + 48 * kMiB, 8));
}

}  // namespace
}  // namespace spillway::cuda
