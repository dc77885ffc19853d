// Launches to hashes, hashes to execution ids.
#include "policy/prediction/launch_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>

namespace spillway {
namespace {

TEST(LaunchHash, DependsOnNameAllocationsSizesAndOrder) {
  const std::array<LaunchOperand, 2> operands{{{1, 4096}, {2, 8192}}};
  const LaunchHash hash = hash_launch("matmul", operands);
  EXPECT_EQ(hash, hash_launch(std::string("mat") + "mul", operands));
  const std::array<LaunchOperand, 2> other_allocation{{{1, 4096}, {3, 8192}}};
  const std::array<LaunchOperand, 2> other_size{{{1, 4096}, {2, 8193}}};
  const std::array<LaunchOperand, 2> other_order{{{2, 8192}, {1, 4096}}};
  for (const LaunchHash different :
       {hash_launch("matmul2", operands), hash_launch("matmul", other_allocation),
        hash_launch("matmul", other_size), hash_launch("matmul", other_order),
        hash_launch("matmul", std::span(operands).first(1)), hash_launch("", operands)}) {
    EXPECT_NE(hash.first, different.first);
    EXPECT_NE(hash.second, different.second);
  }
}

TEST(LaunchHash, NeitherHalfCollidesOnSimilarLaunches) {
  std::set<std::uint64_t> first;
  std::set<std::uint64_t> second;
  for (std::uint64_t allocation = 0; allocation < 300; ++allocation) {
    for (Bytes pages = 1; pages <= 300; ++pages) {
      const std::array<LaunchOperand, 1> operand{{{allocation, pages * kPageBytes}}};
      const LaunchHash hash = hash_launch("add", operand);
      first.insert(hash.first);
      second.insert(hash.second);
    }
  }
  EXPECT_EQ(first.size(), 90'000U);
  EXPECT_EQ(second.size(), 90'000U);
}

TEST(ExecutionIds, AreDenseAndRepeat) {
  ExecutionIds ids;
  EXPECT_EQ(ids.id_of({7, 1}), 0U);
  EXPECT_EQ(ids.id_of({9, 1}), 1U);
  EXPECT_EQ(ids.id_of({7, 1}), 0U);
  EXPECT_EQ(ids.size(), 2U);
}

TEST(ExecutionIds, SecondHashSettlesCollisionOfTheFirst) {
  ExecutionIds ids;
  EXPECT_EQ(ids.id_of({7, 1}), 0U);
  EXPECT_EQ(ids.id_of({7, 2}), 1U);
  EXPECT_EQ(ids.id_of({7, 1}), 0U);
}

TEST(ExecutionIds, LaunchesThatNeverRepeatShareTheLastOfThem) {
  ExecutionIds ids;
  const auto id_of = [&](std::uint64_t launch) {
    const LaunchOperand operand{.allocation = launch, .bytes = 0};
    return ids.id_of(hash_launch("kernel", {&operand, 1}));
  };
  for (std::uint64_t launch = 0; launch < 2 * ExecutionIds::kMost; ++launch) {
    ASSERT_LT(id_of(launch), ExecutionIds::kMost);
  }
  EXPECT_EQ(ids.size(), ExecutionIds::kMost);
  EXPECT_EQ(id_of(7), 7U);
  EXPECT_EQ(id_of(ExecutionIds::kMost + 7), id_of(ExecutionIds::kMost + 7));
}

}  // namespace
}  // namespace spillway
