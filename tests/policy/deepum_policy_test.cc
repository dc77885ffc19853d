// DeepUM's policy as a whole: what it asks for, what it gives up, and what it learns, first against
// a control that only remembers, then driving the engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/memory/page_queues.h"
#include "engine/memory/space.h"
#include "policy/base_uvm.h"
#include "policy/deepum.h"
#include "policy/untimed_platform.h"

namespace spillway {
namespace {

using test::UntimedPlatform;
using testing::ElementsAre;
using testing::IsEmpty;

class FakeControl final : public Control {
 public:
  explicit FakeControl(std::uint32_t blocks) {
    EXPECT_TRUE(space_.allocate(blocks * kBlockBytes, 0).has_value());
  }

  void prefetch(BlockId block) override { prefetched.push_back(block); }
  void pre_evict(BlockId block, Tier /*to*/) override { pre_evicted.push_back(block); }
  void copy_down(BlockId block, Tier /*to*/) override { pre_evicted.push_back(block); }
  bool give_up(AllocationId /*id*/) override { return false; }
  bool set_host_mapped(BlockId /*block*/) override { return false; }
  void clear_host_mapped(BlockId /*block*/) override {}
  [[nodiscard]] const Space& space() const override { return space_; }
  [[nodiscard]] const PageQueues& queues() const override { return queues_; }
  [[nodiscard]] const PendingUses& pending_uses() const override { return pending_uses_; }
  [[nodiscard]] Bytes free_bytes(Tier /*tier*/) const override { return 0; }
  [[nodiscard]] Bytes capacity_bytes(Tier /*tier*/) const override { return kGiB; }
  [[nodiscard]] Bytes pre_evicting_bytes(Tier /*to*/) const override { return 0; }
  [[nodiscard]] bool evictable(BlockId block) const override { return !busy.contains(block); }
  [[nodiscard]] bool usable(BlockId block) const override {
    return space_.block(block).queue == PageQueue::kUsed;
  }
  [[nodiscard]] bool on_its_way(BlockId /*block*/) const override { return false; }
  [[nodiscard]] bool dies_after(BlockId /*block*/, LaunchId /*launch*/) const override {
    return false;
  }
  [[nodiscard]] BlockId oldest_recomputable() const override { return kNoBlock; }
  [[nodiscard]] bool frames_have_sizes() const override { return false; }
  [[nodiscard]] Bytes queued_prefetch_bytes() const override { return 0; }

  // Resident blocks, least recently migrated first.
  void resident(const std::vector<BlockId>& blocks) {
    for (const BlockId block : blocks) queues_.push(PageQueue::kUsed, block);
  }
  void leaves(BlockId block) { queues_.remove(block); }
  void dies(BlockId block) { space_.block(block).contents = Contents::kDiscarded; }

  std::vector<BlockId> prefetched;
  std::vector<BlockId> pre_evicted;
  std::set<BlockId> busy;

 private:
  Space space_;
  LaunchTable launches_;
  PendingUses pending_uses_{space_, launches_};
  PageQueues queues_{space_, pending_uses_};
};

// Kernel k touches blocks 2k and 2k + 1, four kernels around and around, N = 1.
class DeepUmVictims : public testing::Test {
 protected:
  void launch(ExecutionId execution, const std::vector<BlockId>& faults) {
    const Launch launch{.tag = ++launches_seen_, .execution = execution, .accesses = {}};
    policy_->on_launch(launch, control_);
    for (const BlockId block : faults) policy_->on_fault(launch, block, control_);
    if (!faults.empty()) policy_->on_faults(launch, control_);
  }
  void learn() {
    for (const ExecutionId k : {0U, 1U, 2U, 3U, 0U}) launch(k, {2 * k, 2 * k + 1});
    control_.prefetched.clear();
  }
  std::optional<BlockId> victim(Cause cause) { return policy_->select_victim(cause, 6, control_); }

  FakeControl control_{8};
  std::optional<DeepUm> policy_{std::in_place, "deepum", DeepUmOptions{.degree = 1, .table = {}}};
  std::uint64_t launches_seen_ = 0;
};

TEST_F(DeepUmVictims, PrefetchTakesTheOldestThatIsNotExpected) {
  control_.resident({2, 4, 0, 5, 3});
  learn();
  launch(1, {});  // expects 2, 3 and, one kernel further, 4, 5
  EXPECT_EQ(victim(Cause::kPrefetch), 0U);
  control_.leaves(0);
  EXPECT_EQ(victim(Cause::kPrefetch), std::nullopt);  // rather nothing than what is needed soon
  launch(2, {});                                      // expects 4, 5, 6, 7
  EXPECT_EQ(victim(Cause::kPrefetch), 2U);
  control_.leaves(2);
  EXPECT_EQ(victim(Cause::kPrefetch), 3U);
}

TEST_F(DeepUmVictims, PrefetchPassesOverWhatCannotLeave) {
  control_.resident({0, 1, 2});
  learn();
  launch(1, {});
  control_.busy = {0};
  EXPECT_EQ(victim(Cause::kPrefetch), 1U);
  control_.busy = {0, 1};
  EXPECT_EQ(victim(Cause::kPrefetch), std::nullopt);
}

// On the fault path the driver's own order holds, expected or not.
TEST_F(DeepUmVictims, FaultTakesTheLeastRecentlyMigrated) {
  control_.resident({2, 4, 0});
  learn();
  launch(1, {});
  EXPECT_EQ(victim(Cause::kFault), 2U);
  control_.busy = {2};
  EXPECT_EQ(victim(Cause::kFault), 4U);
}

// The chain, paused one kernel ahead, goes on by the blocks of the kernel that comes into sight.
TEST_F(DeepUmVictims, PrefetchesTheNextKernelsBlocksThatAreNotThere) {
  control_.resident({2, 4});
  learn();
  launch(1, {});
  EXPECT_THAT(control_.prefetched, ElementsAre(5));  // of kernel 2, whose block 4 is there
  control_.resident({5});
  control_.prefetched.clear();
  launch(2, {});
  EXPECT_THAT(control_.prefetched, ElementsAre(6, 7));
  control_.resident({7});
  control_.prefetched.clear();
  launch(3, {});
  EXPECT_THAT(control_.prefetched, ElementsAre(0, 1));
}

// A frame for what is dead would be taken from the living.
TEST_F(DeepUmVictims, WithTheBrakeDeadBlocksOfKernelsToComeAreNotFetched) {
  policy_.emplace("deepum", DeepUmOptions{.degree = 1, .table = {}, .brake = true});
  learn();
  control_.dies(4);
  launch(1, {});
  EXPECT_THAT(control_.prefetched, ElementsAre(5));  // 2 and 3 were fetched by then
}

// A fault ends the chain; a new one begins behind it and comes to the next kernel once more.
TEST_F(DeepUmVictims, AFaultRestartsTheChain) {
  learn();
  launch(1, {});
  control_.prefetched.clear();
  launch(2, {4, 5});
  EXPECT_THAT(control_.prefetched, ElementsAre(6, 7, 6, 7));
}

// --- On the engine ------------------------------------------------------------------------------

EngineOptions options_for(std::uint32_t device_blocks) {
  EngineOptions options;
  options.device_capacity_bytes = device_blocks * kBlockBytes;
  options.host_capacity_bytes = kGiB;
  options.room_ahead_bytes = kBlockBytes;
  options.reclaim_discarded_first = false;  // as DeepUM
  return options;
}

// A program of kernels that each use two tensors of a block, in a fixed order.
struct Loop {
  Loop(std::uint32_t device_blocks, std::uint32_t kernel_count, Policy& policy)
      : kernels(kernel_count), platform(options_for(device_blocks), policy) {
    for (std::uint32_t i = 0; i < 2 * kernels; ++i) {
      tensors.push_back(platform.engine().allocate(kBlockBytes, i).value());
    }
  }
  // The faults of one iteration.
  std::uint64_t iterate() {
    const std::uint64_t before = platform.engine().stats().faults;
    for (std::uint32_t k = 0; k < kernels; ++k) {
      platform.run(k, {tensors[2 * k], tensors[2 * k + 1]});
    }
    return platform.engine().stats().faults - before;
  }
  std::uint32_t kernels;
  UntimedPlatform platform;
  std::vector<AllocationId> tensors;
};

// 40 blocks on a device of 10. On-demand paging faults on every block of every kernel for ever.
// DeepUM does so in the first iteration; when the second begins it does not know yet that kernel 0
// follows the last one, so its two blocks fault again; from then on it is always ahead.
TEST(DeepUmOnTheEngine, LearnsInTheFirstIteration) {
  BaseUvm on_demand;
  Loop paging(10, 20, on_demand);
  DeepUm deepum("deepum", {.degree = 2, .table = {}});
  Loop learning(10, 20, deepum);
  for (int iteration = 0; iteration < 3; ++iteration) EXPECT_EQ(paging.iterate(), 40U);
  EXPECT_EQ(learning.iterate(), 40U);
  EXPECT_EQ(learning.iterate(), 2U);
  EXPECT_EQ(learning.iterate(), 0U);
  EXPECT_EQ(learning.platform.engine().stats().prefetches_wasted, 0U);
}

// Nothing to learn and nothing to move where everything fits.
TEST(DeepUmOnTheEngine, MovesNothingThatFits) {
  DeepUm deepum("deepum", {.degree = 2, .table = {}});
  Loop loop(40, 20, deepum);
  EXPECT_EQ(loop.iterate(), 40U);
  for (int iteration = 0; iteration < 3; ++iteration) EXPECT_EQ(loop.iterate(), 0U);
  EXPECT_THAT(loop.platform.transfers(), IsEmpty());
}

// Section 5.2: B dies. The next victim is A all the same, the least recently migrated; when B's
// turn comes it is dropped, and its bytes never move.
TEST(DeepUmOnTheEngine, DropsDeadBlocksAtTheirTurn) {
  DeepUm deepum("deepum", {.degree = 2, .table = {}});
  UntimedPlatform platform(options_for(3), deepum);
  Engine& engine = platform.engine();
  std::vector<AllocationId> ids;
  for (std::uint64_t tag = 0; tag < 5; ++tag) {
    ids.push_back(engine.allocate(kBlockBytes, tag).value());
  }
  const auto block_of = [&](std::size_t i) {
    return engine.space().allocation(ids[i]).first_block;
  };
  for (const std::uint32_t k : {0U, 1U, 2U}) platform.run(k, {ids[k]});
  engine.discard(ids[1], DiscardMode::kEager);
  platform.run(3, {ids[3]});
  EXPECT_TRUE(platform.copied_down(block_of(0)));
  EXPECT_TRUE(engine.space().block(block_of(1)).frames.has(Tier::kDevice));
  EXPECT_EQ(engine.stats().saved_by_discard_bytes, 0U);
  platform.run(4, {ids[4]});
  EXPECT_FALSE(engine.space().block(block_of(1)).frames.has(Tier::kDevice));
  EXPECT_FALSE(platform.copied_down(block_of(1)));
  EXPECT_FALSE(platform.copied_down(block_of(2)));
  EXPECT_EQ(engine.stats().saved_by_discard_bytes, kBlockBytes);
  EXPECT_EQ(engine.stats().moved(Tier::kDevice, Tier::kHost), kBlockBytes);
}

}  // namespace
}  // namespace spillway
