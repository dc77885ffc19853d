// Contents that are made again, in the simulator: that they move less, and that every launch finds
// what it should (the simulator looks itself). docs/cuda.md.
#include "platform/sim/remakes.h"

#include <gtest/gtest.h>

#include <string>

#include "platform/replay_within.h"
#include "policy/base_uvm.h"
#include "policy/lookahead.h"
#include "trace/generate.h"

namespace spillway::sim {
namespace {

constexpr const char* kProduct = "nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN";
constexpr const char* kPointwise = "at::native::vectorized_elementwise_kernel<4, some functor>";

TEST(RemakesOfATrace, AreOfPyTorchsPointwiseKernels) {
  EXPECT_TRUE(is_pointwise(kPointwise));
  EXPECT_TRUE(is_pointwise("at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add"));
  EXPECT_FALSE(is_pointwise("at::native::elementwise_kernel<128, 2, ...>"));
  EXPECT_FALSE(is_pointwise("layer0.gelu.forward"));
  EXPECT_TRUE(is_matrix_product(kProduct));
  EXPECT_FALSE(is_matrix_product("sm80_xmma_fprop_implicit_gemm_bf16"));
  EXPECT_FALSE(is_matrix_product(kPointwise));
}

class RemakesInReplay : public ::testing::Test {
 protected:
  static EngineStats run(const Trace& trace, Policy& policy, double part,
                         std::uint32_t queue_depth) {
    return replay_within(part, trace, policy, queue_depth).stats;
  }
  static Trace step() {
    return generate_transformer({.batch_size = 8,
                                 .sequence = 256,
                                 .width = 768,
                                 .heads = 12,
                                 .layers = 8,
                                 .feed_forward = 3072,
                                 .vocabulary = 8000});
  }
  // The same, with PyTorch's name on those whose names end so, or another.
  static Trace named(Trace trace, const std::string& end, const char* name = kPointwise) {
    for (Kernel& kernel : trace.kernels) {
      if (kernel.name.ends_with(end)) {
        kernel.name = name;
      }
    }
    return trace;
  }

  Lookahead lookahead;
};

TEST_F(RemakesInReplay, MoveLess) {
  const Trace unknown = step();
  Lookahead other;
  const EngineStats moving = run(unknown, other, 0.5, 300);
  const EngineStats again = run(named(unknown, ".gelu.forward"), lookahead, 0.5, 300);
  EXPECT_EQ(moving.given_up_bytes, 0U);
  EXPECT_GT(again.given_up_bytes, 0U);
  EXPECT_GT(again.launches, moving.launches);
  EXPECT_LT(again.moved(Tier::kDevice, Tier::kHost), moving.moved(Tier::kDevice, Tier::kHost));
}

TEST_F(RemakesInReplay, AndMatrixProducts) {
  const Trace unknown = step();
  Lookahead other;
  const EngineStats moving = run(unknown, other, 0.5, 300);
  const EngineStats again = run(named(unknown, ".expand.forward", kProduct), lookahead, 0.5, 300);
  EXPECT_GT(again.given_up_bytes, 0U);
  EXPECT_LT(again.moved(Tier::kDevice, Tier::kHost), moving.moved(Tier::kDevice, Tier::kHost));
}

// A product that writes memory of its own besides, as convolutions have it.
struct Workspace {
  Bytes bytes = 2 * kMiB;
  const char* set_by = "memset";  // nullptr: nothing is in it
  bool set_from_another = false;
  bool wanted_later = false;
  const char* product = kProduct;
};

TEST_F(RemakesInReplay, AndMatrixProductsWithAWorkspaceOfTheirOwn) {
  const auto given_up_bytes = [](const Workspace& it) {
    Trace trace;
    const Trace plain = named(step(), ".expand.forward", it.product);
    trace.tensors = plain.tensors;
    for (Kernel kernel : plain.kernels) {
      const bool is_product = kernel.name == it.product;
      const auto id = static_cast<TensorId>(trace.tensors.size());
      if (is_product) {
        trace.tensors.push_back({.bytes = it.bytes});
        kernel.writes.push_back(id);
        if (it.set_by != nullptr) {
          std::vector<TensorId> reads;
          if (it.set_from_another) {
            reads.push_back(kernel.reads[0]);
          }
          trace.kernels.push_back(
              {.name = it.set_by, .duration_ns = 1000, .reads = reads, .writes = {id}});
          kernel.reads.push_back(id);
        }
      }
      trace.kernels.push_back(kernel);
      if (is_product && it.wanted_later) {
        trace.kernels.push_back({.name = "look", .duration_ns = 1000, .reads = {id}, .writes = {}});
      }
    }
    Lookahead policy;
    return run(trace, policy, 0.5, 300).given_up_bytes;
  };
  EXPECT_GT(given_up_bytes({}), 0U);
  EXPECT_GT(given_up_bytes({.set_by = nullptr}), 0U);
  EXPECT_EQ(given_up_bytes({.bytes = 34 * kMiB}), 0U);
  EXPECT_EQ(given_up_bytes({.wanted_later = true}), 0U);
  // Operands, of which the trace does not know that they are only read.
  EXPECT_EQ(given_up_bytes({.set_by = "copy in"}), 0U);
  EXPECT_EQ(given_up_bytes({.set_by = "another", .set_from_another = true}), 0U);
  // Kernels that have no workspaces.
  EXPECT_EQ(given_up_bytes({.product = kPointwise}), 0U);
}

// Sums whose parts die at once, and results that are changed in place: whatever has such a name.
TEST_F(RemakesInReplay, EveryLaunchFindsWhatItShould) {
  Trace all = step();
  for (std::size_t i = 0; i < all.kernels.size(); ++i) {
    all.kernels[i].name = i % 2 == 0 ? kPointwise : kProduct;
  }
  for (const double part : {0.9, 0.6, 0.4}) {
    for (const std::uint32_t queue_depth : {0U, 7U, 300U}) {
      Lookahead policy;
      (void)run(all, policy, part, queue_depth);
    }
  }
}

TEST_F(RemakesInReplay, OnlyWhereThePolicyWantsIt) {
  BaseUvm base_uvm;
  EXPECT_EQ(run(named(step(), ".gelu.forward"), base_uvm, 0.5, 300).given_up_bytes, 0U);
}

TEST_F(RemakesInReplay, NothingWhileAllFits) {
  EXPECT_EQ(run(named(step(), ".gelu.forward"), lookahead, 1.2, 300).given_up_bytes, 0U);
}

}  // namespace
}  // namespace spillway::sim
