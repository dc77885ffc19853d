// Which kernels are known by their names, and which only look like them.
#include "interpose/cuda/operands/read_only_parameters.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace spillway::cuda {
namespace {

TEST(ReadOnlyParameters, ArePyTorchsPointwiseKernels) {
  const auto cast = known_reads(
      "_ZN2at6native29vectorized_elementwise_kernelILi8EZZZNS0_24bfloat16_copy_kernel_"
      "cudaERNS_18TensorIteratorBaseEENKUlvE_clEvENKUlvE2_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_");
  ASSERT_TRUE(cast.has_value());
  EXPECT_EQ(cast->parameter, 2U);
  EXPECT_EQ(cast->pointers, 2U);
  const auto add = known_reads(
      "_ZN2at6native27unrolled_elementwise_kernelINS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EELi4E23"
      "TrivialOffsetCalculatorILi2EjES6_ILi1EjENS0_6memory12LoadWithCastILi2EEENS9_13StoreWithCastI"
      "Li1EEEEEviT_T0_T2_T3_T4_T5_");
  ASSERT_TRUE(add.has_value());
  EXPECT_EQ(add->pointers, 3U);
}

TEST(ReadOnlyParameters, AFunctorIsPyTorchsOrAnothers) {
  for (const char* const functor :
       {"ILi4ENS0_10AddFunctorE", "ILi8EZZZNS0_24bfloat16_copy_kernel_E",
        "INS0_15CUDAFunctor_addIfEE", "ILi16EZNS0_3fooEvE", "ILi4EN3ext9MyFunctorE",
        "ILi4EZZN3ext4gelEvE", "IN3ext1FE", "IfE", "Li", ""}) {
    const auto reads = known_reads(std::string("_ZN2at6native29vectorized_elementwise_kernel") +
                                   functor + "St5arrayIPcLm2EEEEviT0_T1_");
    const bool ours = std::string_view(functor).find("NS0_") != std::string_view::npos;
    EXPECT_EQ(reads && reads->of_pytorch, ours) << functor;
  }
}

TEST(ReadOnlyParameters, OthersAreNot) {
  for (const char* const name :
       {"", "vectorized_elementwise_kernel",
        // Several results.
        "_ZN2at6native45unrolled_elementwise_kernel_for_multi_outputsILi2EfSt5arrayIPcLm3EEEEviT_",
        // Pointers within a functor.
        "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastEUliE_EEviT1_",
        // Somebody else's.
        "_ZN4mine6native29vectorized_elementwise_kernelILi4EfSt5arrayIPcLm2EEEEviT0_T1_",
        // Two arrays: not the template that we know.
        "_ZN2at6native29vectorized_elementwise_kernelILi4ESt5arrayIPcLm2EES2_St5arrayIPcLm2EEEEvi",
        "_ZN2at6native29vectorized_elementwise_kernelILi4EfSt5arrayIPcLmEEEEviT0_T1_"}) {
    EXPECT_FALSE(known_reads(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace spillway::cuda
