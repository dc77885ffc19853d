// cuBLAS's functions that are looked up by name: cuDNN opens cublasLt for the convolutions that are
// matrix products. Layer: interpose, cuda. Those that a library was linked with come to the
// functions of cublas_hooks.cc by themselves.
#pragma once

#include <string_view>

namespace spillway::cuda {

// cublasLtMatmul, which needs nothing that other calls have set.
[[nodiscard]] bool is_looked_up_cublas(std::string_view name);
// What stands in front of the function that was found by it; nullptr: nothing, as where another
// library's was found before, or none. Any thread's.
[[nodiscard]] void* hook_of_cublas(void* found);

}  // namespace spillway::cuda
