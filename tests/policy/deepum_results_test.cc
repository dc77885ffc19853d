// DeepUM under a program whose operators write to memory that was dead, as under `spillway run`:
// frames for results are made ready where the program comes back to the same places, and only
// there.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "policy/deepum.h"
#include "policy/untimed_platform.h"

namespace spillway {
namespace {

using test::UntimedPlatform;

constexpr std::uint32_t kOperators = 20;
constexpr std::uint32_t kPlaces = 200;  // where results may lie

EngineOptions tracking() {
  EngineOptions options;
  options.device_capacity_bytes = 16 * kBlockBytes;
  options.host_capacity_bytes = kGiB;
  options.room_ahead_bytes = kBlockBytes;
  options.tracks_writes = true;
  return options;
}

// Each operator reads a weight and writes a result, which is dead after the next one. There are as
// many weights as operators, more than the device holds.
class DeepUmResults : public testing::Test {
 protected:
  DeepUmResults() {
    for (std::uint32_t k = 0; k < kOperators; ++k) {
      weights_.push_back(engine().allocate(kBlockBytes, k).value());
      touch({}, weights_.back(), true);
    }
    for (std::uint32_t i = 0; i < kPlaces; ++i) {
      results_.push_back(engine().allocate(kBlockBytes, i).value());
      touch({}, results_.back(), true);
      engine().discard(results_.back(), DiscardMode::kLazy);
    }
  }
  Engine& engine() { return platform_.engine(); }
  // Whether the thread has stopped there.
  bool touch(const Launch& during, AllocationId id, bool write) {
    const BlockId block_id = engine().space().allocation(id).first_block;
    const Block& block = engine().space().block(block_id);
    if (block.mapped && (block.writable || !write)) {
      return false;
    }
    const std::array faults{ThreadFault{.block = block_id, .write = write}};
    engine().thread_faults(during, faults);
    platform_.finish_all();
    return true;
  }
  // The results come to lie so many places further than they are numbered. Returns at how many the
  // program stopped.
  std::uint32_t iterate(std::uint32_t shift) {
    std::uint32_t stops = 0;
    for (std::uint32_t k = 0; k < kOperators; ++k) {
      const LaunchId id = platform_.begin(k, {});
      platform_.finish_all();
      Launch during;
      during.execution = k;
      touch(during, weights_[k], false);
      const AllocationId result = results_[(k + shift) % kPlaces];
      engine().reuse(result);
      stops += touch(during, result, true) ? 1U : 0U;
      if (last_ != kNoAllocation) {
        engine().discard(last_, DiscardMode::kLazy);
      }
      last_ = result;
      platform_.end(id);
      for (const AllocationId each : results_) {
        const Block& block = engine().space().block(engine().space().allocation(each).first_block);
        ready_ += block.retired && block.prefetched ? 1U : 0U;
      }
    }
    return stops;
  }

  DeepUm policy_{"deepum", {.degree = 8, .table = {}, .brake = true, .results_ahead = true}};
  UntimedPlatform platform_{tracking(), policy_};
  std::vector<AllocationId> weights_;
  std::vector<AllocationId> results_;
  AllocationId last_ = kNoAllocation;
  std::uint64_t ready_ = 0;  // frames that waited for a result, behind each operator
};

TEST_F(DeepUmResults, WhereTheProgramComesBackToThemItStopsAtNone) {
  for (int i = 0; i < 40; ++i) {
    iterate(0);
  }
  std::uint32_t stops = 0;
  for (int i = 0; i < 10; ++i) {
    stops += iterate(0);
  }
  EXPECT_LE(stops, 5U) << "of 200 results";
}

TEST_F(DeepUmResults, WhereItDoesNotFramesAreNotMadeReadyAhead) {
  std::uint32_t shift = 0;
  for (int i = 0; i < 50; ++i) {
    shift += 23;
    iterate(shift);
  }
  // But for what the table of the operator that runs expects of it.
  EXPECT_LE(ready_, 500U);
}

}  // namespace
}  // namespace spillway
