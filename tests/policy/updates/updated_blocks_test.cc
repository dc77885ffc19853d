// What updates use at the host is not fetched to the device for what was learnt or planned before.
#include "policy/updates/updated_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "policy/deepum.h"
#include "policy/page_machine.h"
#include "policy/planned.h"
#include "policy/untimed_platform.h"

namespace spillway {
namespace {

using test::UntimedPlatform;

EngineOptions with_blocks(std::uint32_t device_blocks) {
  EngineOptions options;
  options.device_capacity_bytes = device_blocks * kBlockBytes;
  options.host_capacity_bytes = kGiB;
  options.storage_capacity_bytes = kGiB;
  return options;
}

Launch update_of(BlockId block) {
  return {.runs_at = Tier::kHost, .accesses = {{0, block, 1, AccessMode::kReadWrite}}};
}

void update(UpdatedBlocks& blocks, BlockId block) {
  blocks.hear(UpdateStage::kIssued, update_of(block));
  blocks.hear(UpdateStage::kAdmitted, update_of(block));
  blocks.hear(UpdateStage::kEnded, update_of(block));
}

TEST(UpdatedBlocks, AreWantedAtTheHostFromIssueOn) {
  UpdatedBlocks blocks;
  EXPECT_FALSE(blocks.wanted_at_host(3));
  blocks.hear(UpdateStage::kIssued, update_of(3));
  EXPECT_TRUE(blocks.wanted_at_host(3));
  EXPECT_FALSE(blocks.wanted_at_host(2));
  blocks.hear(UpdateStage::kEnded, update_of(3));
  EXPECT_TRUE(blocks.wanted_at_host(3));  // a state
}

TEST(UpdatedBlocks, AParameterIsWantedOnTheDevice) {
  UpdatedBlocks blocks;
  update(blocks, 0);
  blocks.used(0);
  for (int unseen = 0; unseen < 7; ++unseen) {
    update(blocks, 0);
    EXPECT_FALSE(blocks.wanted_at_host(0)) << unseen;
  }
  update(blocks, 0);
  EXPECT_TRUE(blocks.wanted_at_host(0));
  blocks.used(0);
  EXPECT_FALSE(blocks.wanted_at_host(0));
}

TEST(UpdatedBlocks, AGradientIsOnlyRead) {
  UpdatedBlocks blocks;
  Launch reads = update_of(0);
  reads.accesses[0].mode = AccessMode::kRead;
  blocks.hear(UpdateStage::kIssued, reads);
  blocks.hear(UpdateStage::kEnded, reads);
  EXPECT_FALSE(blocks.wanted_at_host(0));
}

// Kernel 2 of three used the state in two iterations; then it is updated at the host.
TEST(UpdatedBlocks, DeepUmDoesNotFetchThem) {
  DeepUm policy("deepum", DeepUmOptions{.degree = 3, .table = {}});
  UntimedPlatform platform(with_blocks(2), policy);
  std::vector<AllocationId> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(platform.engine().allocate(kBlockBytes, 0).value());
  }
  for (int iteration = 0; iteration < 3; ++iteration) {
    for (const std::uint32_t k : {0U, 1U, 2U}) {
      platform.run(k, {ids[k]});
    }
  }
  ASSERT_GT(platform.fetched(ids[2]), 1);
  platform.update({ids[2]});
  const int before = platform.fetched(ids[2]);
  for (int iteration = 0; iteration < 3; ++iteration) {
    for (const std::uint32_t k : {0U, 1U}) {
      platform.run(k, {ids[k]});
    }
    platform.run(2, {});
    platform.update({ids[2]});
  }
  EXPECT_EQ(platform.fetched(ids[2]), before);
}

// The plan fetches it before kernel 2.
TEST(UpdatedBlocks, APlanDoesNotFetchThemUntilAKernelUsesThem) {
  const Trace trace =
      test::trace_of_uses(std::vector<Tensor>(3, {kBlockBytes, true, false}), {{0}, {1}, {2}});
  Plan plan;
  plan.before = {{{PlanStep::kPreEvict, 2, Tier::kHost}}, {}, {{PlanStep::kPrefetch, 2}}};
  Planned policy("planned", trace, plan, Tier::kHost);
  UntimedPlatform platform(with_blocks(3), policy);
  std::vector<AllocationId> ids;
  for (TensorId id = 0; id < 3; ++id) {
    ids.push_back(platform.engine().allocate(kBlockBytes, id).value());
  }
  const auto iteration = [&](bool at_host) {
    platform.run(0, {ids[0]});
    platform.run(1, {ids[1]});
    at_host ? platform.run(2, {}) : platform.run(2, {ids[2]});
    if (at_host) {
      platform.update({ids[2]});
    }
  };
  iteration(true);
  iteration(true);
  iteration(true);
  EXPECT_EQ(platform.fetched(ids[2]), 0);
  iteration(false);  // by a fault
  EXPECT_EQ(platform.fetched(ids[2]), 1);
  iteration(true);
  iteration(true);
  // As a parameter; the first time its copy on the device had not been reclaimed.
  EXPECT_EQ(platform.fetched(ids[2]), 2);
}

}  // namespace
}  // namespace spillway
