// A cuBLAS whose products are sums, launched as the real one does: the parameters in one block, as
// a cluster, behind a memset of a word that each launch leaves as it must not find it. Test
// library.
#include "cublas.h"

#include <dlfcn.h>

#include <array>
#include <cstring>

namespace {

using Memset = unsigned (*)(std::uint64_t to, unsigned char value, std::size_t bytes, void* stream);
struct Attribute {
  std::uint64_t id;
  std::array<std::uint32_t, 16> value;
};
struct Config {
  std::array<unsigned, 7> shape;
  void* stream;
  Attribute* attributes;
  unsigned attribute_count;
};
using Launch = unsigned (*)(const Config* config, void* function, void** parameters, void** extra);

template <typename Call>
Call driver(const char* symbol) {
  return reinterpret_cast<Call>(::dlsym(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), symbol));
}

struct Handle {
  void* stream = nullptr;
  std::uint64_t workspace = 0;
};
void* kernel = nullptr;

std::uint64_t word(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

int launch(std::array<std::uint64_t, kCublasParameters> block, void* stream) {
  static const auto set = driver<Memset>("cuMemsetD8Async");
  static const auto put = driver<Launch>("cuLaunchKernelEx");
  unsigned result = set(block[kCublasWorkspace], 0, sizeof(std::uint64_t), stream);
  Attribute cluster{.id = 4, .value = {1, 1, 1}};
  const Config config{.shape = {1, 1, 1, 1, 1, 1, 0},
                      .stream = stream,
                      .attributes = &cluster,
                      .attribute_count = 1};
  std::size_t bytes = sizeof block;
  // NOLINTBEGIN(performance-no-int-to-ptr)
  void* extra[] = {reinterpret_cast<void*>(1), block.data(), reinterpret_cast<void*>(2), &bytes,
                   nullptr};
  // NOLINTEND(performance-no-int-to-ptr)
  result = result == 0 ? put(&config, kernel, nullptr, extra) : result;
  return static_cast<int>(result);
}

bool is_one(const void* beta) {
  float value = 0;
  std::memcpy(&value, beta, sizeof value);
  return value == 1;
}

template <typename Value>
int tell(Value told, void* value, std::size_t bytes, std::size_t* written) {
  if (bytes < sizeof told) {
    return 7;
  }
  std::memcpy(value, &told, sizeof told);
  *written = sizeof told;
  return 0;
}

}  // namespace

void cublas_set_kernel(void* function) { kernel = function; }

int cublasCreate_v2(void** handle) {
  *handle = new Handle;
  return 0;
}
int cublasDestroy_v2(void* handle) {
  delete static_cast<Handle*>(handle);
  return 0;
}
int cublasSetStream_v2(void* handle, void* stream) {
  static_cast<Handle*>(handle)->stream = stream;
  return 0;
}
int cublasSetWorkspace_v2(void* handle, void* workspace, std::size_t /*bytes*/) {
  static_cast<Handle*>(handle)->workspace = word(workspace);
  return 0;
}
int cublasGetPointerMode_v2(void* /*handle*/, int* mode) { return *mode = 0; }
int cublasGetAtomicsMode(void* /*handle*/, int* mode) { return *mode = 0; }

int cublasGemmEx(void* handle, int /*transpose_a*/, int /*transpose_b*/, int m, int n, int /*k*/,
                 const void* /*alpha*/, const void* a, int /*type_a*/, int /*lda*/, const void* b,
                 int /*type_b*/, int /*ldb*/, const void* beta, void* c, int /*type_c*/,
                 int /*ldc*/, int /*compute*/, int algorithm) {
  const auto* const it = static_cast<Handle*>(handle);
  const std::uint64_t words = static_cast<std::uint64_t>(m) * static_cast<std::uint64_t>(n) / 2;
  const auto part = [&](bool adds) {
    return launch({word(a), word(b), adds ? word(c) : 0, 0, 0, word(c), words, it->workspace},
                  it->stream);
  };
  const int result = part(is_one(beta));
  return result == 0 && algorithm == kCublasInTwo ? part(true) : result;
}

int cublasLtMatmul(void* /*handle*/, void* product, const void* /*alpha*/, const void* a,
                   void* /*a_layout*/, const void* b, void* /*b_layout*/, const void* beta,
                   const void* c, void* /*c_layout*/, void* d, void* d_layout,
                   const void* /*algorithm*/, void* workspace, std::size_t /*workspace_bytes*/,
                   void* stream) {
  const auto* const how = static_cast<CublasProduct*>(product);
  const auto* const layout = static_cast<CublasLayout*>(d_layout);
  return launch({word(a), word(b), is_one(beta) ? word(c) : 0, word(how->bias), how->bias_words,
                 word(d), layout->rows * layout->columns / 2, word(workspace)},
                stream);
}

int cublasLtMatmulDescGetAttribute(const void* product, int which, void* value, std::size_t bytes,
                                   std::size_t* written) {
  const auto* const it = static_cast<const CublasProduct*>(product);
  switch (which) {
    case 1:
    case 2:
      return tell(std::int32_t{0}, value, bytes, written);
    case 7:
      return tell(it->epilogue, value, bytes, written);
    case 8:
      return tell(it->bias, value, bytes, written);
    default:
      return 7;
  }
}

int cublasLtMatrixLayoutGetAttribute(const void* layout, int which, void* value, std::size_t bytes,
                                     std::size_t* written) {
  const auto* const it = static_cast<const CublasLayout*>(layout);
  switch (which) {
    case 0:
      return tell(std::uint32_t{0}, value, bytes, written);
    case 1:
      return tell(std::int32_t{0}, value, bytes, written);
    case 2:
      return tell(it->rows, value, bytes, written);
    case 3:
      return tell(it->columns, value, bytes, written);
    case 4:
      return tell(it->leading, value, bytes, written);
    case 5:
      return tell(std::int32_t{1}, value, bytes, written);
    case 6:
      return tell(std::int64_t{0}, value, bytes, written);
    default:
      return 7;
  }
}
