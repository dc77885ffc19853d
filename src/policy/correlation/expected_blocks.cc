#include "policy/correlation/expected_blocks.h"

#include <algorithm>

namespace spillway {

void ExpectedBlocks::advance(const PredictedLaunches& launches) {
  ++launch_;
  // Blocks that the kernel's table has learned since it came into sight are marked now.
  expect_all(launches.current(), launch_);
  const std::uint32_t known = launches.count() - launches.fresh();
  for (std::uint32_t distance = known + 1; distance <= launches.count(); ++distance) {
    expect_all(launches.at(distance), launch_ + distance);
  }
}

void ExpectedBlocks::expect(BlockId block, std::uint64_t launch) {
  if (block >= last_launch_.size()) last_launch_.resize(std::size_t{block} + 1);
  last_launch_[block] = std::max(last_launch_[block], launch);
}

void ExpectedBlocks::expect_all(ExecutionId execution, std::uint64_t launch) {
  const BlockTable* const table = tables_.find(execution);
  if (table == nullptr) return;
  table->for_each_block([&](BlockId block) { expect(block, launch); });
}

}  // namespace spillway
