// Who multiplies by the cuBLAS that it is linked against, as PyTorch does. Test library.
#include <dlfcn.h>

#include <array>

#include "cublas.h"

namespace {
constexpr std::size_t kElementBytes = 4;
constexpr int kReal32 = 0;
constexpr int kCompute32 = 68;
}  // namespace

extern "C" {

void products_set_kernel(void* function) { cublas_set_kernel(function); }

void* products_handle(void* stream, void* workspace, std::size_t bytes) {
  void* handle = nullptr;
  cublasCreate_v2(&handle);
  cublasSetStream_v2(handle, stream);
  cublasSetWorkspace_v2(handle, workspace, bytes);
  return handle;
}
void products_end(void* handle) { cublasDestroy_v2(handle); }

int products_by_handle(void* handle, const void* a, const void* b, void* c, std::size_t bytes,
                       float beta, int algorithm) {
  const float alpha = 1;
  const int rows = 64;
  const auto columns = static_cast<int>(bytes / kElementBytes / 64);
  return cublasGemmEx(handle, 0, 0, rows, columns, rows, &alpha, a, kReal32, rows, b, kReal32, rows,
                      &beta, c, kReal32, rows, kCompute32, algorithm);
}

// `looked_up`: as cuDNN does, which opens the library.
int products_with_bias(const void* a, const void* b, const void* bias, std::size_t bias_bytes,
                       void* d, std::size_t bytes, void* workspace, std::size_t workspace_bytes,
                       void* stream, int looked_up) {
  auto* multiply = &cublasLtMatmul;
  if (looked_up != 0) {
    Dl_info info{};
    ::dladdr(reinterpret_cast<const void*>(&cublasCreate_v2), &info);
    void* const library = ::dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void* const found = library == nullptr ? nullptr : ::dlsym(library, "cublasLtMatmul");
    if (found == nullptr) {
      return 1;
    }
    multiply = reinterpret_cast<decltype(multiply)>(found);
  }
  const float alpha = 1;
  const float beta = 0;
  CublasProduct product{.epilogue = 4, .bias = bias, .bias_words = bias_bytes / 8};
  CublasLayout layout{.rows = 64, .columns = bytes / kElementBytes / 64, .leading = 64};
  return multiply(nullptr, &product, &alpha, a, &layout, b, &layout, &beta, d, &layout, d, &layout,
                  nullptr, workspace, workspace_bytes, stream);
}

}  // extern "C"
