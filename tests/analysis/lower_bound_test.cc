// Lower bounds: by hand, and never beaten by a caching policy that evicts at random.
#include "analysis/lower_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "analysis/example_traces.h"
#include "analysis/memory_curve.h"

namespace spillway {
namespace {

using test::ResidualBlock;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Machine machine(Bytes device_bytes, Bytes host_bytes) {
  Machine m;
  m.device.capacity_bytes = device_bytes;
  m.host.capacity_bytes = host_bytes;
  m.link.to_device_bytes_per_s = 1e9;
  m.link.from_device_bytes_per_s = 5e8;
  m.storage.capacity_bytes = kGiB;
  m.storage.read_bytes_per_s = 1e8;
  return m;
}

LowerBound bound_of(const Trace& t, const Machine& m) {
  return lower_bound(t, analyze_vitality(t), m);
}

TEST(LowerBound, ComputeTimeWhereEverythingFits) {
  const LowerBound b = bound_of(ResidualBlock::trace(), machine(11270, 0));
  EXPECT_EQ(b.compute_ns, 114);
  EXPECT_EQ(b.to_device_bytes, 0U);
  EXPECT_EQ(b.from_device_bytes, 0U);
  EXPECT_EQ(b.iteration_ns, 114);
  EXPECT_TRUE(b.runs_without_paging());
}

// During Conv2(B) the operands leave 200 bytes. W1 (100), A0 (1000) and dA3 (1300) are used later;
// of these only dA3 was written in this iteration: A0 is the input, W1 is updated at the end.
TEST(LowerBound, ExcessAtTheLargestKernel) {
  const LowerBound b = bound_of(ResidualBlock::trace(), machine(9000, kGiB));
  EXPECT_EQ(b.to_device_bytes, 2200U);
  EXPECT_EQ(b.from_device_bytes, 1100U);
  EXPECT_EQ(b.storage_read_bytes, 0U);
  EXPECT_EQ(b.link_ns, 2200) << "2200 bytes in at 1 GB/s and 1100 bytes out at 0.5 GB/s";
  EXPECT_EQ(b.iteration_ns, 2200 + 40 + 2200) << "out, Conv2(B), in";
}

// The backward convolutions exceed the device; the other kernels still bind. Loss: 1000 bytes of
// room, W1, W2, A0 and A1 idle (2400). Add(F): 100 bytes of room, A1 (1100) written before.
TEST(LowerBound, KernelsLargerThanTheDevice) {
  const LowerBound b = bound_of(ResidualBlock::trace(), machine(3600, 1000));
  EXPECT_THAT(b.over_capacity, ElementsAre(5, 6));
  EXPECT_FALSE(b.runs_without_paging());
  EXPECT_EQ(b.to_device_bytes, 1400U);
  EXPECT_EQ(b.from_device_bytes, 1000U);
  EXPECT_EQ(b.storage_read_bytes, 400U);
  EXPECT_EQ(b.storage_ns, 4000);
  // Loss allows 200 ns out, 8, 4000 ns of storage reads. Add(F) is worse: 1000 bytes out before it,
  // and of the 1300 bytes that return after it 300 come from storage.
  EXPECT_EQ(b.iteration_ns, 2000 + 5 + 3000);
}

// Two weights and room for one. The last kernel writes one: what it wrote goes out after the
// iteration, which nobody counts who looks at that one alone.
TEST(LowerBound, WhatIsWrittenLateGoesOutInTheNextIteration) {
  Trace t;
  t.tensors = {{1000, true, false}, {1000, true, false}};
  t.kernels = {test::kernel("reads the other", 5, {1}, {}), test::kernel("writes", 7, {0}, {0})};
  const LowerBound b = bound_of(t, machine(1000, kGiB));
  EXPECT_EQ(b.from_device_bytes, 0U);
  EXPECT_EQ(b.iteration_ns, 5 + 1000) << "the first kernel, and in what the second needs";
  EXPECT_EQ(b.lasting_ns, 2000 + 5) << "from the second on: out, the first kernel";
}

// Where there is time to move before and after, moving costs nothing.
TEST(LowerBound, TrafficThatHidesBehindKernelsIsFree) {
  Trace t = ResidualBlock::trace();
  for (Kernel& kernel : t.kernels) kernel.duration_ns *= 1000;
  const LowerBound b = bound_of(t, machine(9000, kGiB));
  EXPECT_EQ(b.link_ns, 2200);
  EXPECT_EQ(b.iteration_ns, 114'000);
}

TEST(LowerBound, BytesThatMustMoveAtNoSpeedTakeForever) {
  Machine m = machine(9000, kGiB);
  m.link.to_device_bytes_per_s = 0;
  EXPECT_EQ(bound_of(ResidualBlock::trace(), m).iteration_ns, std::numeric_limits<TimeNs>::max());
}

TEST(LowerBound, UnusedPersistentTensorsNeverNeedTheDevice) {
  Trace t;
  t.tensors = {{1000, true, false}, {10, true, false}};
  t.kernels = {test::kernel("a", 5, {1}, {})};
  EXPECT_EQ(bound_of(t, machine(10, kGiB)).to_device_bytes, 0U);
}

TEST(LowerBound, EmptyTrace) {
  const LowerBound b = bound_of(Trace{}, machine(1, 1));
  EXPECT_EQ(b.iteration_ns, 0);
  EXPECT_THAT(b.over_capacity, IsEmpty());
}

struct Traffic {
  Bytes to_device = 0;
  Bytes from_device = 0;
};

// Whole tensors move on demand; victims are drawn at random. Generous to the policy: what dies is
// dropped, births cost nothing, and an unmodified tensor that has a copy elsewhere leaves for free.
class RandomCache {
 public:
  RandomCache(const Trace& trace, Bytes capacity_bytes, std::uint64_t seed)
      : trace_(trace),
        vitality_(analyze_vitality(trace)),
        capacity_bytes_(capacity_bytes),
        rng_(seed),
        states_(trace.tensors.size()) {}

  Traffic run_iteration() {
    traffic_ = {};
    for (KernelIndex k = 0; k < trace_.kernels.size(); ++k) {
      run_kernel(k);
    }
    return traffic_;
  }

 private:
  struct State {
    bool on_device = false;
    bool copied = false;  // a good copy lies elsewhere
  };

  void run_kernel(KernelIndex k) {
    const Kernel& kernel = trace_.kernels[k];
    for (TensorId id = 0; id < states_.size(); ++id) {
      if (!test::uses(kernel, id) || states_[id].on_device) continue;
      make_room(kernel, trace_.tensors[id].bytes);
      const auto& life = vitality_.lives[id];
      const bool born = !trace_.tensors[id].persistent && life && life->first_use == k;
      if (!born) traffic_.to_device += trace_.tensors[id].bytes;
      states_[id] = {true, !born};
      used_bytes_ += trace_.tensors[id].bytes;
    }
    for (const TensorId id : kernel.writes) states_[id].copied = false;
    for (TensorId id = 0; id < states_.size(); ++id) {
      const auto& life = vitality_.lives[id];
      const bool dies = !trace_.tensors[id].persistent && life && life->last_use == k;
      if (dies) drop(id);
    }
  }

  void make_room(const Kernel& kernel, Bytes bytes) {
    while (used_bytes_ + bytes > capacity_bytes_) {
      std::vector<TensorId> victims;
      for (TensorId id = 0; id < states_.size(); ++id) {
        if (states_[id].on_device && !test::uses(kernel, id)) victims.push_back(id);
      }
      ASSERT_FALSE(victims.empty());
      const TensorId victim = victims[rng_.below(victims.size())];
      if (!states_[victim].copied) traffic_.from_device += trace_.tensors[victim].bytes;
      drop(victim);
    }
  }

  void drop(TensorId id) {
    if (states_[id].on_device) used_bytes_ -= trace_.tensors[id].bytes;
    states_[id].on_device = false;
  }

  const Trace& trace_;
  Vitality vitality_;
  Bytes capacity_bytes_;
  Rng rng_;
  std::vector<State> states_;
  Bytes used_bytes_ = 0;
  Traffic traffic_;
};

TEST(LowerBound, NoRandomCacheMovesFewerBytes) {
  int binding = 0;
  int longer = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const Trace t = test::random_trace(seed);
    const MemoryCurve curve = memory_curve(t, analyze_vitality(t));
    Rng rng(seed);
    const Bytes spare = curve.peak_live_bytes - curve.largest_working_set_bytes;
    const Bytes capacity = curve.largest_working_set_bytes + rng.below(spare / 2 + 1);
    const LowerBound b = bound_of(t, machine(capacity, kGiB));
    ASSERT_TRUE(b.runs_without_paging());
    RandomCache cache(t, capacity, seed);
    TimeNs all_ns = 0;
    constexpr int kIterations = 4;
    for (int iteration = 0; iteration < kIterations; ++iteration) {
      const Traffic traffic = cache.run_iteration();
      ASSERT_GE(traffic.to_device, b.to_device_bytes);
      ASSERT_GE(traffic.from_device, b.from_device_bytes);
      // Moving while no kernel runs, one way at a time: at 1 ns a byte in and 2 ns out.
      const auto moving_ns = static_cast<TimeNs>(traffic.to_device + 2 * traffic.from_device);
      ASSERT_GE(b.compute_ns + moving_ns, b.iteration_ns);
      all_ns += b.compute_ns + moving_ns;
    }
    ASSERT_GE(b.lasting_ns, b.iteration_ns);
    // Counted from any kernel on, one iteration less is whole.
    ASSERT_GE(all_ns, (kIterations - 1) * b.lasting_ns);
    longer += b.lasting_ns > b.iteration_ns ? 1 : 0;
    binding += b.to_device_bytes > 0 && b.from_device_bytes > 0 ? 1 : 0;
  }
  EXPECT_GT(binding, 100) << "the bounds must be more than zero often enough to be tested";
  EXPECT_GT(longer, 50);
}

}  // namespace
}  // namespace spillway
