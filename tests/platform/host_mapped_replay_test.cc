// What is used where it lies in host memory, in the simulator: that less moves and steps are
// shorter, and that every launch finds what it should (the simulator looks itself). docs/cuda.md.
#include "platform/common/sparse_kernels.h"
#include "platform/replay_within.h"
#include "policy/lookahead.h"
#include "trace/generate.h"

namespace spillway::sim {
namespace {

constexpr const char* kLookUp =
    "at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean<float, long>";
constexpr const char* kAdd = "at::native::indexFuncLargeIndex<float, long, unsigned int, 2, 2>";

TEST(SparseKernels, ByTheNamesThatPyTorchGives) {
  EXPECT_TRUE(uses_a_little(kLookUp));
  EXPECT_TRUE(uses_a_little(kAdd));
  EXPECT_TRUE(
      uses_a_little("at::native::(anonymous namespace)::indexSelectLargeIndex<float, long>"));
  EXPECT_FALSE(uses_a_little("at::native::vectorized_elementwise_kernel<4, some functor>"));
  EXPECT_FALSE(uses_a_little("nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN"));
  EXPECT_FALSE(uses_a_little(""));
}

class FarInReplay : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kQueue = 300;
  static constexpr std::size_t kIterations = 12;

  // Tables of which each step uses a little, and what comes of it.
  static Trace tables(const char* look_up, const char* add) {
    constexpr TensorId kTables = 12;
    Trace trace;
    for (TensorId id = 0; id < kTables; ++id) {
      trace.tensors.push_back({.bytes = 256 * kMiB, .persistent = true});
    }
    for (TensorId id = 0; id < kTables; ++id) {
      trace.tensors.push_back({.bytes = 4 * kMiB});
      const TensorId result = kTables + id;
      trace.kernels.push_back(
          {.name = look_up, .duration_ns = 30'000, .reads = {id}, .writes = {result}});
    }
    for (TensorId id = 0; id < kTables; ++id) {
      const TensorId result = kTables + id;
      trace.kernels.push_back(
          {.name = add, .duration_ns = 60'000, .reads = {id, result}, .writes = {id}});
    }
    return trace;
  }
  static Replayed run(const Trace& trace, double part, std::size_t iterations = kIterations) {
    Lookahead policy;
    return replay_within(part, trace, policy, kQueue, iterations);
  }
};

TEST_F(FarInReplay, TablesOfWhichLittleIsUsedStayWhereTheyAre) {
  const Replayed moving = run(tables("look up", "add"), 0.5);
  const Replayed host_mapped = run(tables(kLookUp, kAdd), 0.5);
  EXPECT_EQ(moving.stats.host_mapped_bytes, 0U);
  EXPECT_GT(host_mapped.stats.host_mapped_bytes, 0U);
  EXPECT_GT(moving.last.moved(Tier::kHost, Tier::kDevice), 0U);
  EXPECT_LT(10 * host_mapped.last.moved(Tier::kHost, Tier::kDevice),
            moving.last.moved(Tier::kHost, Tier::kDevice));
  EXPECT_LT(4 * host_mapped.times_ns.back(), moving.times_ns.back());
}

TEST_F(FarInReplay, NothingWhileAllFits) {
  EXPECT_EQ(run(tables(kLookUp, kAdd), 1.3, 6).stats.host_mapped_bytes, 0U);
}

TEST_F(FarInReplay, NothingWhereLaunchesCannot) {
  Lookahead policy;
  Machine machine = *load_machine("h200");
  machine.link.host_mapped_bytes_per_s = 0;
  EXPECT_EQ(
      replay_within(0.5, tables(kLookUp, kAdd), policy, kQueue, 6, machine).stats.host_mapped_bytes,
      0U);
}

// A look-up uses no more of a table than it gets of the device's memory in its time.
TEST_F(FarInReplay, WhatIsLookedUpCrossesTheLink) {
  const auto last_ns = [](double bytes_per_s) {
    Lookahead policy;
    Machine machine = *load_machine("h200");
    machine.device.row_bandwidth_bytes_per_s = bytes_per_s;
    return static_cast<double>(
        replay_within(0.5, tables(kLookUp, kAdd), policy, kQueue, kIterations, machine)
            .times_ns.back());
  };
  const double slow_ns = last_ns(1e12);
  EXPECT_GT(last_ns(2e12), 1.5 * slow_ns);
  EXPECT_GT(last_ns(0), 2.5 * slow_ns);  // as any launch, 4.1e12
}

// What is used in other ways as well comes to the device again: here each second step's add is a
// kernel that nobody knows.
TEST_F(FarInReplay, WhatIsUsedOftenAllTheSameComesBack) {
  Trace trace = tables(kLookUp, kAdd);
  const std::size_t once = trace.kernels.size();
  for (std::size_t i = 0; i < once; ++i) {
    Kernel kernel = trace.kernels[i];
    kernel.name = i < once / 2 ? kLookUp : "another";
    trace.kernels.push_back(kernel);
  }
  const Replayed host_mapped = run(trace, 0.5);
  const Replayed moving = run(tables("look up", "add"), 0.5);
  EXPECT_LT(host_mapped.times_ns.back(), 3 * moving.times_ns.back());
  EXPECT_GT(host_mapped.last.moved(Tier::kHost, Tier::kDevice), 0U);
}

// Whatever has such a name, and at every depth.
TEST_F(FarInReplay, EveryLaunchFindsWhatItShould) {
  Trace all = generate_transformer({.batch_size = 8,
                                    .sequence = 256,
                                    .width = 1536,
                                    .heads = 12,
                                    .layers = 8,
                                    .feed_forward = 6144,
                                    .vocabulary = 8000});
  for (std::size_t i = 0; i < all.kernels.size(); ++i) {
    all.kernels[i].name = i % 3 == 0 ? "another" : kLookUp;
  }
  bool any = false;
  for (const double part : {0.9, 0.6, 0.4}) {
    for (const std::uint32_t queue_depth : {0U, 7U, 300U}) {
      Lookahead policy;
      any |= replay_within(part, all, policy, queue_depth, 6).stats.host_mapped_bytes > 0;
    }
  }
  EXPECT_TRUE(any);
}

}  // namespace
}  // namespace spillway::sim
