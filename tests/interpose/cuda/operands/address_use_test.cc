// Which kernels are known by their names to store no addresses, and to follow none.
#include "interpose/cuda/operands/address_use.h"

#include <cxxabi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace spillway::cuda {
namespace {

AddressUse use_of(const std::string& symbol, bool xla = false) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return address_use(symbol, text != nullptr ? text.get() : symbol, {.xla = xla});
}

TEST(AddressUse, OfPyTorchTorchCompileAndNvidiasLibrariesIsNone) {
  for (const char* const symbol :
       {"_ZN2at6native29vectorized_elementwise_kernelILi8EZZZNS0_25bfloat16_copy_kernel_"
        "cudaERNS_18TensorIteratorBaseEENKUlvE_clEvENKUlvE2_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_",
        "_ZN2at6native27unrolled_elementwise_kernelINS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EELi4E23"
        "TrivialOffsetCalculatorILi2EjES6_ILi1EjENS0_6memory12LoadWithCastILi2EEENS9_"
        "13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_",
        // A table of weights, whose rows are numbered by integers of 64 bits.
        "_ZN2at6native21indexSelectLargeIndexIfljLi2ELi2ELin2ELb1EEEvv",
        "_ZN2at6native24vectorized_gather_kernelILi16ElEEvPcS2_PT0_illllb",
        "_ZN2at6native24index_elementwise_kernelILi128ELi4EZNS0_16gpu_index_kernelIZNS0_17index_"
        "kernel_implINS0_10OpaqueTypeILi4EEEEEvRNS_18TensorIteratorBaseEN3c108ArrayRefIlEESA_"
        "EUlPcPKclE_EEvS7_SA_SA_RKT_EUliE_EEvlT1_",
        "_ZN13pytorch_flash16flash_fwd_kernelIiEEvv",
        "_Z36fmha_cutlassF_f32_aligned_64x64_sm80N22PyTorchMemEffAttention15AttentionKernelE",
        "_ZN14at_cuda_detail3cub30DeviceRadixSortDownsweepKernelIiEEvv",
        "triton_poi_fused_add_gelu_3", "triton_red_fused_native_layer_norm_0",
        "triton_tem_fused_mm_1", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop",
        "_ZN5cudnn3cnn4convE", "_ZN17cutlass__5x_cudnn6KernelI4convEEvNT_6ParamsE",
        "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nchw_execute_kernel__5x_cudnn",
        "ampere_scudnn_128x64_relu_medium_nn_v1", "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"}) {
    const AddressUse use = use_of(symbol);
    EXPECT_FALSE(use.stores || use.values || use.reaches) << symbol;
  }
}

// Anybody may call a kernel so.
TEST(AddressUse, OfXlasFusionsIsNoneWhereItIsLoaded) {
  for (const char* const symbol :
       {"loop_add_fusion_3", "fusion", "fusion_12", "gemm_fusion_dot_7_0", "wrapped_convert"}) {
    const AddressUse with_xla = use_of(symbol, true);
    EXPECT_FALSE(with_xla.stores || with_xla.values || with_xla.reaches) << symbol;
    const AddressUse without = use_of(symbol);
    EXPECT_TRUE(without.stores && without.reaches) << symbol;
  }
}

// Numbers that a functor holds may be addresses that a script has computed with.
TEST(AddressUse, OfPyTorchsIntegersIsThatOfTheirValues) {
  for (const char* const symbol :
       {"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIlEESt5arrayIPcLm1EEEEvi"
        "T0_T1_",
        "_ZN2at6native29vectorized_elementwise_kernelILi2ENS0_13AUnaryFunctorIlllNS0_15binary_"
        "internal10MulFunctorIlEEEESt5arrayIPcLm2EEEEviT0_T1_",
        // arange
        "_ZN2at6native29elementwise_kernel_with_indexIiZZZZNS0_15arange_cuda_outERKN3c106ScalarES5_"
        "S5_RNS_6TensorEENKUlvE_clEvENKUlvE2_clEvENKUlvE_clEvEUllE_EEvT_T0_PN15function_traitsISD_"
        "E11result_typeE"}) {
    const AddressUse use = use_of(symbol);
    EXPECT_FALSE(use.stores || use.reaches) << symbol;
    EXPECT_EQ(use.values, 1U) << symbol;
  }
  // Where they stand among other things.
  const AddressUse strided = use_of(
      "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_"
      "13BUnaryFunctorIlllNS0_15CUDAFunctor_addIlEEEEEEvRNS_18TensorIteratorBaseERKT_EUliE_"
      "EEviT1_");
  EXPECT_TRUE(strided.stores);
  EXPECT_FALSE(strided.reaches);
}

TEST(AddressUse, OfProductsByGroupsIsAll) {
  EXPECT_TRUE(
      use_of("_ZN2at6native12_GLOBAL__N_135populate_cublas_grouped_args_kernelEPKilll").stores);
  const AddressUse prepared = use_of(
      "_ZN2at4cuda6detail25prepare_grouped_gemm_dataIN3c108BFloat16E"
      "S4_S4_fEEvPT_PT0_PT1_PT2_S9_");
  EXPECT_TRUE(prepared.stores && prepared.reaches);
  EXPECT_TRUE(use_of("_ZN7cutlass13device_kernelIN2at4cuda6detail4gemmEEEvNT_6ParamsE").reaches);
}

TEST(AddressUse, OfCublasIsToFollowArraysOfPointers) {
  for (const char* const symbol :
       {"nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT", "ampere_sgemm_128x64_nn",
        "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x32",
        "_ZN7cutlass7Kernel2I50cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4EEvNT_6ParamsE",
        "_ZN8cublasLt19splitKreduce_kernelILi32EEEvv"}) {
    const AddressUse use = use_of(symbol);
    EXPECT_FALSE(use.stores || use.values) << symbol;
    EXPECT_TRUE(use.reaches) << symbol;
  }
}

TEST(AddressUse, OfOthersIsAll) {
  for (const char* const symbol :
       {"", "store", "adam_kernel", "triton_adam", "my_triton_poi_fused", "fusion_of_mine",
        "_Z11diffusion_1", "_ZN4mine6native29vectorized_elementwise_kernelEv",
        // A functor of somebody's in a library for all.
        "_ZN6thrust8cuda_cub4core13_kernel_agentIN4mine7FunctorEEEvv",
        "_ZN3ext6kernelIN2at6TensorEEEvv", "my_cudnn_like_kernel", "_ZN4mine5cudnn4convEv",
        "_ZN4mine13ncclDevKernelEv", "my_ncclKernel", "_Z", "_Z99", "_ZN"}) {
    const AddressUse use = use_of(symbol, true);
    EXPECT_TRUE(use.stores && use.reaches) << symbol;
  }
}

}  // namespace
}  // namespace spillway::cuda
