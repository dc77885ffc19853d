// What leaves a device whose frames are handles: large blocks rather than small ones, whose calls
// cost as much, unless nobody uses those. In the simulator, on steps that are made for it.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "platform/replay_within.h"
#include "policy/lookahead.h"

namespace spillway::sim {
namespace {

constexpr Bytes kLarge = 32 * kMiB;
constexpr Bytes kSmall = 4 * kMiB;

struct Made {
  Trace trace;
  TensorId tensor(Bytes bytes, bool persistent) {
    trace.tensors.push_back({.bytes = bytes, .persistent = persistent});
    return static_cast<TensorId>(trace.tensors.size() - 1);
  }
  void kernel(const char* name, TimeNs duration_ns, std::vector<TensorId> reads,
              std::vector<TensorId> writes) {
    trace.kernels.push_back({.name = name + std::to_string(trace.kernels.size()),
                             .duration_ns = duration_ns,
                             .reads = std::move(reads),
                             .writes = std::move(writes)});
  }
};

// An optimizer's states of two sizes by turns, and what a forward pass saves for a backward pass.
Trace step(Bytes one, Bytes other) {
  constexpr int kStates = 48;
  constexpr int kSaved = 40;
  Made made;
  std::vector<TensorId> states;
  for (int i = 0; i < kStates; ++i) {
    states.push_back(made.tensor(one, true));
    states.push_back(made.tensor(other, true));
  }
  std::vector<TensorId> saved;
  for (int i = 0; i < kSaved; ++i) {
    saved.push_back(made.tensor(2 * kLarge, false));
    made.kernel("forward", kNsPerMs, {}, {saved.back()});
  }
  for (; !saved.empty(); saved.pop_back()) {
    made.kernel("backward", 2 * kNsPerMs, {saved.back()}, {});
  }
  for (const TensorId state : states) {
    made.kernel("optimizer", kNsPerMs / 4, {state}, {state});
  }
  return made.trace;
}

// The last of several steps with a queue of 100.
EngineStats last_step(double part, const Trace& trace, Machine machine = *load_machine("h200")) {
  Lookahead policy;
  return replay_within(part, trace, policy, 100, 8, std::move(machine), 2 * kLarge).last;
}

// Those that issued launches name cannot: at less, half of the large ones.
TEST(SmallBlocks, StayWhileLargeOnesCanGo) {
  for (const double part : {0.9, 0.85}) {
    const EngineStats last = last_step(part, step(kLarge, kSmall));
    ASSERT_GT(last.evictions, 0U);
    EXPECT_GE(last.moved(Tier::kDevice, Tier::kHost), last.evictions * kLarge / 8 * 7);
  }
}

// A device of pages moves what is oldest.
TEST(SmallBlocks, GoWhereWhatMovesCostsByItsBytes) {
  Machine machine = *load_machine("h200");
  machine.handles = {};
  const EngineStats last = last_step(0.8, step(kLarge, kSmall), machine);
  ASSERT_GT(last.evictions, 0U);
  EXPECT_LT(last.moved(Tier::kDevice, Tier::kHost), last.evictions * kLarge / 8 * 7);
}

// Where nothing else can go they do, each when there is no room.
TEST(SmallBlocks, AreNotCopiedDownAhead) {
  const EngineStats large = last_step(0.9, step(kLarge, kLarge));
  EXPECT_GT(large.pre_evictions, 0U);
  const EngineStats small = last_step(0.9, step(kSmall, 2 * kSmall));
  EXPECT_GT(small.evictions, 0U);
  EXPECT_EQ(small.pre_evictions, 0U);
}

// Many of 24 MiB that are used once, and then large ones again and again, which would fit.
TEST(SmallBlocks, AreNotPassedOverForEver) {
  constexpr int kStale = 60;
  constexpr int kHot = 14;
  constexpr int kRounds = 40;
  Made made;
  std::vector<TensorId> hot;
  for (int i = 0; i < kStale; ++i) {
    made.kernel("once", kNsPerMs / 10, {made.tensor(24 * kMiB, true)}, {});
  }
  for (int i = 0; i < kHot; ++i) {
    hot.push_back(made.tensor(64 * kMiB, true));
  }
  for (int round = 0; round < kRounds; ++round) {
    made.trace.kernels.back().synchronizes = true;
    for (const TensorId id : hot) {
      made.kernel("again", kNsPerMs, {id}, {});
    }
  }
  const EngineStats last = last_step(0.87, made.trace);
  // All of it once and a half; 37 GiB if what is small stayed.
  EXPECT_LT(last.moved(Tier::kHost, Tier::kDevice), 7 * kGiB / 2);
}

}  // namespace
}  // namespace spillway::sim
