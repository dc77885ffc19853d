// The functions of cuBLAS that a test library has, and what it has besides.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

int cublasCreate_v2(void** handle);
int cublasDestroy_v2(void* handle);
int cublasSetStream_v2(void* handle, void* stream);
int cublasSetWorkspace_v2(void* handle, void* workspace, std::size_t bytes);
int cublasGetPointerMode_v2(void* handle, int* mode);
int cublasGetAtomicsMode(void* handle, int* mode);
int cublasGemmEx(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
                 const void* alpha, const void* a, int type_a, int lda, const void* b, int type_b,
                 int ldb, const void* beta, void* c, int type_c, int ldc, int compute,
                 int algorithm);
int cublasLtMatmul(void* handle, void* product, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                   void* d, void* d_layout, const void* algorithm, void* workspace,
                   std::size_t workspace_bytes, void* stream);
int cublasLtMatmulDescGetAttribute(const void* product, int which, void* value, std::size_t bytes,
                                   std::size_t* written);
int cublasLtMatrixLayoutGetAttribute(const void* layout, int which, void* value, std::size_t bytes,
                                     std::size_t* written);

// Not the real one's: the kernel of its products, registered with the fake driver by who has it.
// D's word is 3 a + b + its bias's, and c's if beta is 1. All parameters are 64 bits.
enum CublasWord {
  kCublasA,
  kCublasB,
  kCublasC,
  kCublasBias,
  kCublasBiasWords,
  kCublasD,
  kCublasWords,
  kCublasWorkspace,
  kCublasParameters
};
// The algorithm of cublasGemmEx that makes the product twice, the second time added to the first.
enum CublasAlgorithm { kCublasInTwo = 7 };
void cublas_set_kernel(void* function);

}  // extern "C"

// Of cublasLt, as this library has it.
struct CublasProduct {
  std::uint32_t epilogue = 1;
  const void* bias = nullptr;
  std::uint64_t bias_words = 0;
};
struct CublasLayout {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t leading = 0;
};
