// The instrumented program, as G10's figure 9 shows one.
#include "policy/planning/plan.h"

#include <gtest/gtest.h>

#include "policy/page_machine.h"

namespace spillway {
namespace {

using test::kernel;

// Figure 9's four instructions around a ReLU, a pooling and a convolution with work space.
TEST(RenderProgram, Figure9) {
  Trace trace;
  trace.tensors = {{40960, true, false},
                   {77073360, false, false},
                   {4110417920, false, true},
                   {8192, false, false}};
  trace.kernels = {kernel("forward_ReLU_l2", 1'500, {3}, {3}),
                   kernel("forward_conv2d_l4", 2'500'000, {3, 0}, {1, 2}),
                   kernel("forward_BatchNorm2d_l5", 999, {1}, {})};
  Plan plan;
  plan.before = {{{PlanStep::kAlloc, 3}, {PlanStep::kPrefetch, 0}},
                 {{PlanStep::kAlloc, 1}, {PlanStep::kAlloc, 2}},
                 {{PlanStep::kPreEvict, 0, Tier::kStorage}, {PlanStep::kFree, 2}}};
  EXPECT_EQ(render_program(plan, trace),
            "alloc(&tensor3, 8192);\n"
            "prefetch(tensor0, 40960);\n"
            "// kernel 0, 1.5 us\n"
            "forward_ReLU_l2(tensor3 -> tensor3);\n"
            "alloc(&tensor1, 77073360);\n"
            "alloc(&tensor2, 4110417920);\n"
            "// kernel 1, 2.5 ms\n"
            "forward_conv2d_l4(tensor3, tensor0 -> tensor1, tensor2);\n"
            "pre_evict(tensor0, 40960, storage);\n"
            "free(tensor2);\n"
            "// kernel 2, 999 ns\n"
            "forward_BatchNorm2d_l5(tensor1);\n");
}

TEST(RenderProgram, KernelsThatReadNothingOrTouchNothing) {
  const Trace trace{.model = {},
                    .device = {},
                    .dtype = {},
                    .tensors = {test::intermediate(1)},
                    .kernels = {kernel("fill", 5, {}, {0}), kernel("sync", 5, {}, {})}};
  Plan plan;
  plan.before = {{{PlanStep::kPreEvict, 0, Tier::kHost}}, {}};
  EXPECT_EQ(render_program(plan, trace),
            "pre_evict(tensor0, 4096, host);\n"
            "// kernel 0, 5 ns\n"
            "fill(tensor0);\n"
            "// kernel 1, 5 ns\n"
            "sync();\n");
}

}  // namespace
}  // namespace spillway
