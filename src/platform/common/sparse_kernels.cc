// See sparse_kernels.h.
#include "platform/common/sparse_kernels.h"

#include <algorithm>
#include <array>

namespace spillway {

// PyTorch, aten/src/ATen/native/cuda: EmbeddingBag.cu, Indexing.cu (the third to sixth, and what
// stands for them where algorithms have to be deterministic), IndexKernel.cu, IndexKernelUtils.cu.
bool uses_a_little(std::string_view kernel_name) {
  constexpr std::array<std::string_view, 9> kSparse{
      "EmbeddingBag_updateOutputKernel",
      "indexSelectLargeIndex",
      "indexSelectSmallIndex",
      "indexFuncLargeIndex",
      "indexFuncSmallIndex",
      "indexing_backward_kernel",
      "index_elementwise_kernel",
      "vectorized_gather_kernel",
      " (rows)",  // of traces that were recorded without a GPU
  };
  return std::any_of(kSparse.begin(), kSparse.end(), [&](std::string_view part) {
    return kernel_name.find(part) != std::string_view::npos;
  });
}

}  // namespace spillway
