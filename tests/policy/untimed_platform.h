// A platform without a clock: carries out what the engine asks for when the test says so. Drives a
// real engine under one policy, launch by launch.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "engine/engine.h"

namespace spillway::test {

class UntimedPlatform final : private Mechanism {
 public:
  UntimedPlatform(const EngineOptions& options, Policy& policy) : engine_(options, *this, policy) {}

  [[nodiscard]] Engine& engine() { return engine_; }
  // What was asked for, in order.
  [[nodiscard]] const std::vector<Transfer>& transfers() const { return started_; }
  // Whether a transfer has copied the block from the device.
  [[nodiscard]] bool copied_down(BlockId block) const {
    for (const Transfer& transfer : started_) {
      for (const BlockId moved : transfer.blocks) {
        if (moved == block && transfer.from == Tier::kDevice) return true;
      }
    }
    return false;
  }

  // One launch that uses the allocations. While it runs everything that was asked for is carried
  // out, as on a machine with a fast link.
  void run(ExecutionId execution, const std::vector<AllocationId>& operands,
           AccessMode mode = AccessMode::kReadWrite) {
    const LaunchId id = begin(execution, operands, mode);
    finish_all();
    end(id);
  }
  LaunchId begin(ExecutionId execution, const std::vector<AllocationId>& operands,
                 AccessMode mode = AccessMode::kReadWrite) {
    Launch launch{
        .tag = ++launches_, .execution = execution, .position = execution, .accesses = {}};
    for (const AllocationId id : operands) {
      const Allocation& allocation = engine_.space().allocation(id);
      launch.accesses.push_back({id, allocation.first_block, allocation.block_count, mode});
    }
    ready_ = false;
    const LaunchAdmission admission = engine_.issue_launch(launch);
    EXPECT_NE(admission.state, LaunchState::kTooLarge);
    while (!ready_ && !under_way_.empty()) finish_one();
    EXPECT_TRUE(ready_) << "launch " << launches_ << " waits for ever";
    return admission.id;
  }
  // An update of the allocations, next to their data.
  void update(const std::vector<AllocationId>& operands) {
    Launch launch{.tag = ++launches_, .runs_at = Tier::kHost, .accesses = {}};
    for (const AllocationId id : operands) {
      const Allocation& allocation = engine_.space().allocation(id);
      launch.accesses.push_back(
          {id, allocation.first_block, allocation.block_count, AccessMode::kReadWrite});
    }
    const LaunchAdmission admission = engine_.issue_launch(launch);
    finish_all();
    end(admission.id);
  }
  // How often a transfer has brought the block to the device.
  [[nodiscard]] int fetched(BlockId block) const {
    int times = 0;
    for (const Transfer& transfer : started_) {
      for (const BlockId moved : transfer.blocks) {
        times += moved == block && transfer.to == Tier::kDevice ? 1 : 0;
      }
    }
    return times;
  }
  void finish_all() {
    while (!under_way_.empty()) finish_one();
  }
  void end(LaunchId id) {
    engine_.end_launch(id);
    finish_all();
    const Status sound = engine_.check_invariants();
    EXPECT_TRUE(sound.has_value()) << sound.error().message;
  }

 private:
  void finish_one() {
    const TransferId id = under_way_.front();
    under_way_.pop_front();
    engine_.transfer_finished(id);
  }

  void start_transfer(const Transfer& transfer) override {
    started_.push_back(transfer);
    under_way_.push_back(transfer.id);
  }
  void zero(std::span<const BlockId> /*blocks*/) override {}
  void zero_at_host(std::span<const BlockId> /*blocks*/) override {}
  void map(std::span<const BlockId> /*blocks*/, bool /*writable*/) override {}
  void unmap(std::span<const BlockId> /*blocks*/) override {}
  void drop(std::span<const BlockId> /*blocks*/, Tier /*tier*/) override {}
  void faults_served(std::uint64_t /*launch*/) override {}
  void release_launch(std::uint64_t launch, std::span<const TransferId> /*transfers*/) override {
    ready_ = ready_ || launch == launches_;
  }

  std::vector<Transfer> started_;
  std::deque<TransferId> under_way_;
  std::uint64_t launches_ = 0;
  bool ready_ = false;
  Engine engine_;
};

}  // namespace spillway::test
