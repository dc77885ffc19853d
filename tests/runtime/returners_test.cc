// Lookahead brings back by habit what no issued launch names yet, where nothing is in its way: in
// the simulator, on iterations that are made for it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "machine/machine.h"
#include "policy/registry.h"
#include "runtime/simulate.h"

namespace spillway {
namespace {

constexpr Bytes kBytes = 64 * kMiB;
constexpr int kStates = 8;
constexpr int kSaved = 10;
// A tensor takes 1.34 ms one way.
constexpr double kLinkBytesPerS = 50e9;

class Step {
 public:
  Step() {
    for (int i = 0; i < kStates; ++i) {
      states_.push_back(add(true));
    }
  }
  // Fills the device, step by step, with what it saves.
  void forward() {
    for (int i = 0; i < kSaved; ++i) {
      saved_.push_back(add(false));
      kernel("forward", kNsPerMs, {}, {saved_.back()});
    }
  }
  // Gives it back, this much of it.
  void backward(int count = kSaved) {
    for (int i = 0; i < count; ++i) {
      kernel("backward", 2 * kNsPerMs, {saved_.back()}, {});
      saved_.pop_back();
    }
  }
  void optimizer() {
    for (const TensorId state : states_) {
      kernel("optimizer", kNsPerMs / 10, {state}, {state});
    }
  }
  [[nodiscard]] const Trace& trace() const { return trace_; }

 private:
  TensorId add(bool persistent) {
    trace_.tensors.push_back({kBytes, persistent, false});
    return static_cast<TensorId>(trace_.tensors.size() - 1);
  }
  void kernel(const char* what, TimeNs duration_ns, std::vector<TensorId> reads,
              std::vector<TensorId> writes) {
    Kernel kernel;
    kernel.name = fmt::format("{} {}", what, trace_.kernels.size());
    kernel.duration_ns = duration_ns;
    kernel.reads = std::move(reads);
    kernel.writes = std::move(writes);
    trace_.kernels.push_back(std::move(kernel));
  }

  Trace trace_;
  std::vector<TensorId> states_;
  std::vector<TensorId> saved_;
};

// Room for what a forward pass saves, and for two states more; four launches are known ahead.
SimulationResult run(const Trace& trace) {
  Machine machine;
  machine.device.capacity_bytes = (kSaved + 2) * kBytes;
  machine.host.capacity_bytes = 4 * kGiB;
  machine.link.to_device_bytes_per_s = machine.link.from_device_bytes_per_s = kLinkBytesPerS;
  machine.faults.model = FaultModel::kLaunch;
  const Result<SimulationResult> result = simulate(
      trace, machine, **find_policy("lookahead"),
      {.policy = {}, .warm_up_iterations = 6, .iterations = 4, .queue_depth = 4, .as_run = true});
  EXPECT_TRUE(result) << result.error().message;
  return *result;
}

TEST(ReusePrefetcher, StatesComeBackDuringTheBackwardPass) {
  Step step;
  step.forward();
  step.backward();
  step.optimizer();
  const SimulationResult result = run(step.trace());
  EXPECT_GE(result.stats.moved(Tier::kHost, Tier::kDevice), 4 * 6 * kBytes) << "it does not fit";
  EXPECT_EQ(result.stats.prefetches_wasted, 0U);
  // Six states or more would have to come while the optimizer waits: 8 ms of 31.
  EXPECT_LT(result.stall_ns(), 2 * kNsPerMs);
}

// A lull: room for a while, and then none again before the states are needed. They come too early
// once, and later from then on.
TEST(ReusePrefetcher, WhatCameTooEarlyComesLaterTheNextTime) {
  Step step;
  step.forward();
  step.backward(kSaved - 2);
  step.forward();
  step.backward(kSaved + 2);
  step.optimizer();
  const SimulationResult result = run(step.trace());
  EXPECT_EQ(result.stats.prefetches_wasted, 0U);
  EXPECT_LT(result.stats.moved(Tier::kHost, Tier::kDevice), 4 * (kStates + 4) * kBytes)
      << "each comes once an iteration, and little more";
}

}  // namespace
}  // namespace spillway
