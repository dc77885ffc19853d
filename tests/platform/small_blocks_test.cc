// What leaves a device whose frames are handles: large blocks rather than small ones, whose calls
// cost as much. In the simulator, on a step that is made for it.
#include <cstdint>

#include "platform/replay_within.h"
#include "policy/lookahead.h"

namespace spillway::sim {
namespace {

constexpr Bytes kLarge = 32 * kMiB;
constexpr Bytes kSmall = 4 * kMiB;
constexpr int kStates = 48;
constexpr int kSaved = 40;

// An optimizer's states of two sizes by turns, and what a forward pass saves for a backward pass.
Trace step() {
  Trace trace;
  const auto kernel = [&](const char* name, TimeNs duration_ns, std::vector<TensorId> reads,
                          std::vector<TensorId> writes) {
    trace.kernels.push_back({.name = name + std::to_string(trace.kernels.size()),
                             .duration_ns = duration_ns,
                             .reads = std::move(reads),
                             .writes = std::move(writes)});
  };
  for (int i = 0; i < kStates; ++i) {
    trace.tensors.push_back({.bytes = kLarge, .persistent = true});
    trace.tensors.push_back({.bytes = kSmall, .persistent = true});
  }
  for (int i = 0; i < kSaved; ++i) {
    trace.tensors.push_back({.bytes = 2 * kLarge});
    kernel("forward", kNsPerMs, {}, {static_cast<TensorId>(2 * kStates + i)});
  }
  for (int i = kSaved - 1; i >= 0; --i) {
    kernel("backward", 2 * kNsPerMs, {static_cast<TensorId>(2 * kStates + i)}, {});
  }
  for (TensorId id = 0; id < 2 * kStates; ++id) {
    kernel("optimizer", kNsPerMs / 4, {id}, {id});
  }
  return trace;
}

struct Left {
  std::uint64_t blocks = 0;
  Bytes bytes = 0;
};
Left left_in_a_step(double part, Machine machine) {
  Lookahead policy;
  const Replayed ran = replay_within(part, step(), policy, 100, 8, std::move(machine), 2 * kLarge);
  return {.blocks = ran.last.evictions, .bytes = ran.last.moved(Tier::kDevice, Tier::kHost)};
}

TEST(SmallBlocks, StayWhileLargeOnesCanGo) {
  const Left left = left_in_a_step(0.8, *load_machine("h200"));
  ASSERT_GT(left.blocks, 0U);
  EXPECT_GE(left.bytes, left.blocks * kLarge / 8 * 7);
}

// A device of pages moves what is oldest.
TEST(SmallBlocks, GoWhereWhatMovesCostsByItsBytes) {
  Machine machine = *load_machine("h200");
  machine.handles = {};
  const Left left = left_in_a_step(0.8, machine);
  ASSERT_GT(left.blocks, 0U);
  EXPECT_LT(left.bytes, left.blocks * kLarge / 8 * 7);
}

}  // namespace
}  // namespace spillway::sim
