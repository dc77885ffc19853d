// Memory that launches use where it lies in the host's, on the CUDA platform: words stay what they
// are, and neither budget is exceeded. docs/cuda.md.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "platform/cuda/cuda_world.h"

namespace spillway::cuda {
namespace {

constexpr std::string_view kAdd = "at::native::indexFuncLargeIndex<float, long>";

class HostMappedCuda : public CudaWorld {
 protected:
  static constexpr std::size_t kTables = 5;
  static constexpr Bytes kTableBytes = 8 * kMiB;

  void begin() {
    open(lookahead);
    on = stream();
    make_tables();
  }
  void make_tables() {
    for (std::size_t i = 0; i < kTables; ++i) {
      tables.push_back(allocate(kTableBytes));
      fill(on, tables.back(), ++seed);
    }
  }
  // Each table once in a step. The host is never far ahead.
  void steps(int count, std::string_view name = kAdd) {
    for (int i = 0; i < count; ++i) {
      for (Buffer& table : tables) {
        rewrite(on, table, ++seed, name);
      }
      synchronize(on);
      const FakeCudaCounters seen = counters();
      most_host_bytes = std::max(most_host_bytes, seen.host_handle_bytes + seen.pinned_bytes);
    }
    whole();
    EXPECT_EQ(wrong_words(), 0U);
  }
  [[nodiscard]] Bytes host_mapped() const { return platform->stats().engine.host_mapped_bytes; }

  CuStream on = nullptr;
  std::vector<Buffer> tables;
  std::uint64_t seed = 0;
  Bytes most_host_bytes = 0;
};

TEST_F(HostMappedCuda, NothingMovesAnyMore) {
  begin();
  steps(12);
  EXPECT_GE(host_mapped(), (kTables - 2) * kTableBytes);
  EXPECT_GE(counters().host_handle_bytes, (kTables - 2) * kTableBytes);
  const Bytes moved_in = moved(Tier::kHost, Tier::kDevice);
  steps(6);
  EXPECT_EQ(moved(Tier::kHost, Tier::kDevice), moved_in);
}

TEST_F(HostMappedCuda, WhatOtherKernelsUseMoves) {
  begin();
  steps(8, "rewrite");
  EXPECT_EQ(host_mapped(), 0U);
}

// It comes back to the device for those.
TEST_F(HostMappedCuda, AndBack) {
  begin();
  steps(12);
  ASSERT_GT(host_mapped(), 0U);
  steps(1, "rewrite");
  const Bytes before = moved(Tier::kHost, Tier::kDevice);
  steps(4, "rewrite");
  EXPECT_GE(moved(Tier::kHost, Tier::kDevice) - before, 4 * kTableBytes);
}

// One launch of all of them, which the budget does not hold.
TEST_F(HostMappedCuda, InALaunchThatIsLargerThanTheBudget) {
  most_handle_bytes = options.device_bytes;
  begin();
  steps(12);
  ASSERT_GT(host_mapped(), 0U);
  for (int i = 0; i < 3; ++i) {
    std::vector<CudaOperand> all;
    all.reserve(tables.size());
    for (const Buffer& table : tables) {
      all.push_back(operand(table, AccessMode::kRead));
    }
    const Buffer& last = tables.back();
    EXPECT_EQ(issue(on, all, "all", false,
                    [&] {
                      return launch(test::kernels().rewrite, on, last.address, last.words,
                                    last.seed, last.seed, address_of(wrong));
                    }),
              CuResult::kSuccess);
    steps(1);
  }
}

TEST_F(HostMappedCuda, HostMemoryIsOneLimitForBoth) {
  options.host_bytes = 64 * kMiB;
  begin();
  steps(12);
  EXPECT_GT(host_mapped(), 0U);
  // Beside stream waits, fingerprints and what the test has.
  EXPECT_LE(most_host_bytes, options.host_bytes + 8 * kMiB);
  steps(8, "rewrite");  // what was far is pinned memory's again, as far as no handle is kept
  EXPECT_LE(most_host_bytes, options.host_bytes + 8 * kMiB);
}

TEST_F(HostMappedCuda, WithoutHostMemoryForItItMoves) {
  begin();
  steps(1);
  config.host_memory_fails = 1;
  fake_cuda_change(&config);
  steps(12);
  EXPECT_EQ(counters().host_handle_bytes, 0U);
  EXPECT_THAT(warned, ::testing::Contains(
                          ::testing::HasSubstr("no more host memory that launches can use")));
}

// A moment without it is not for good.
TEST_F(HostMappedCuda, HostMemoryThatIsThereAgainIsUsedAgain) {
  std::atomic<Bytes> left_bytes = 0;
  options.memory_room = [&left_bytes] {
    return MemoryRoom{.limit_bytes = kGiB, .left_bytes = left_bytes, .whose = "this machine"};
  };
  left_bytes = kGiB;
  begin();
  steps(1);
  left_bytes = kBlockBytes;
  steps(12);
  EXPECT_EQ(counters().host_handle_bytes, 0U);
  EXPECT_THAT(warned, ::testing::Contains(::testing::HasSubstr("going on without for now")));
  left_bytes = kGiB;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  steps(12);
  EXPECT_GT(counters().host_handle_bytes, 0U);
}

// What is dead leaves nothing behind, and what comes to live there is on the device.
TEST_F(HostMappedCuda, EndsWithWhatItHeld) {
  begin();
  steps(12);
  ASSERT_GT(host_mapped(), 0U);
  for (const Buffer& table : tables) {
    platform->memory().free(table.address);
  }
  tables.clear();
  synchronize(on);
  make_tables();
  const Bytes before = moved(Tier::kHost, Tier::kDevice);
  steps(4, "rewrite");
  EXPECT_GE(moved(Tier::kHost, Tier::kDevice) - before, 4 * kTableBytes);
}

}  // namespace
}  // namespace spillway::cuda
