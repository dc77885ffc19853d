// cuBLAS's matrix products, whose launches are known by what they promise (library_calls.h). Layer:
// interpose, cuda. The types and numbers are those of cublas_v2.h and cublasLt.h.
#include "interpose/cuda/hooks/cublas_hooks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "interpose/cuda/libraries/library_calls.h"
#include "interpose/cuda/libraries/library_functions.h"

namespace spillway::cuda {
namespace {

constexpr int kCublasSuccess = 0;
constexpr int kCublasNotInitialized = 1;  // as if the library were not there
constexpr int kHostPointers = 0;          // alpha and beta are the host's
constexpr int kAtomicsNotAllowed = 0;

constexpr int kReal32 = 0;  // CUDA_R_32F and its like
constexpr int kReal16 = 2;
constexpr int kBrain16 = 14;

Bytes element_bytes(int type) {
  return type == kReal32 ? 4 : type == kReal16 || type == kBrain16 ? 2 : 0;
}

// Of cublasComputeType_t, those whose alpha and beta are of 32 bits.
bool scales_by_float(int compute) {
  constexpr std::array kOf32 = {68, 69, 74, 75, 77};
  return std::find(kOf32.begin(), kOf32.end(), compute) != kOf32.end();
}

bool is_zero(const void* number) {
  float value = 1;
  std::memcpy(&value, number, sizeof value);
  return value == 0;
}

CuAddress place(const void* pointer) { return reinterpret_cast<CuAddress>(pointer); }

// What can be asked of the library that a caller uses, or that a function is in.
using AskHandle = int (*)(const void* handle, int* answer);
using AskDescription = int (*)(const void* description, int which, void* value, std::size_t bytes,
                               std::size_t* written);
struct Library {
  const void* caller = nullptr;
  AskHandle pointer_mode = nullptr;
  AskHandle atomics_mode = nullptr;
  AskDescription product = nullptr;
  AskDescription layout = nullptr;
  const void* function = nullptr;  // any of them
};

const Library& library_of(const void* caller) {
  constexpr std::size_t kCallers = 32;  // each place in the program that multiplies
  static constinit thread_local OfCallers<Library, kCallers> known;
  return known.of(caller, [&] {
    Library library{
        .caller = caller,
        .pointer_mode = without_us_as<AskHandle>("cublasGetPointerMode_v2", nullptr, caller),
        .atomics_mode = without_us_as<AskHandle>("cublasGetAtomicsMode", nullptr, caller),
        .product = without_us_as<AskDescription>("cublasLtMatmulDescGetAttribute", nullptr, caller),
        .layout =
            without_us_as<AskDescription>("cublasLtMatrixLayoutGetAttribute", nullptr, caller)};
    library.function = library.product != nullptr
                           ? reinterpret_cast<const void*>(library.product)
                           : reinterpret_cast<const void*>(library.pointer_mode);
    return library;
  });
}

template <typename Value>
bool tells(AskDescription ask, const void* of, int which, Value& value) {
  std::size_t written = 0;
  return ask != nullptr && ask(of, which, &value, sizeof value, &written) == kCublasSuccess &&
         written == sizeof value;
}

// --- By handle: what the program has set of it counts --------------------------------------------

struct Product {
  const void* handle;
  const void* a;
  const void* b;
  const void* beta;
  void* c;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t leading;
  std::int64_t stride;  // from one product to the next
  std::int64_t count;
  Bytes element_bytes;  // 0: not known
};

std::optional<MatrixProduct> describe(const Product& call, const Library& library) {
  int pointers = 0;
  int atomics = 0;
  if (library.pointer_mode == nullptr || library.atomics_mode == nullptr ||
      library.pointer_mode(call.handle, &pointers) != kCublasSuccess ||
      library.atomics_mode(call.handle, &atomics) != kCublasSuccess || pointers != kHostPointers) {
    return std::nullopt;
  }
  const Workspace workspace = workspace_of(call.handle);
  const bool reads_c = !is_zero(call.beta);
  const bool no_gaps =
      call.leading == call.rows && (call.count == 1 || call.stride == call.rows * call.columns);
  const std::int64_t elements = call.rows * call.columns * call.count;
  return MatrixProduct{.a = place(call.a),
                       .b = place(call.b),
                       .c = reads_c ? place(call.c) : 0,
                       .d = place(call.c),
                       .made_bytes = !reads_c && no_gaps && atomics == kAtomicsNotAllowed
                                         ? static_cast<Bytes>(elements) * call.element_bytes
                                         : 0,
                       .workspace = workspace.address,
                       .workspace_bytes = workspace.bytes};
}

// --- cublasLt: what the call's descriptions say --------------------------------------------------

namespace lt {

constexpr int kScaleType = 1;
constexpr int kPointerMode = 2;
constexpr int kEpilogue = 7;
constexpr int kBias = 8;
// Scales of A to D, and the largest of D: pointers that narrow types have.
constexpr int kFirstScale = 17;
constexpr int kLastScale = 21;
// Nothing, RELU or GELU, and a bias or none.
constexpr std::array<std::uint32_t, 6> kKnownEpilogues = {1, 2, 4, 2 | 4, 32, 32 | 4};
constexpr std::uint32_t kAddsBias = 4;

constexpr int kType = 0;
constexpr int kOrder = 1;
constexpr int kRows = 2;
constexpr int kColumns = 3;
constexpr int kLeading = 4;
constexpr int kCount = 5;
constexpr int kStride = 6;
constexpr std::int32_t kByColumns = 0;

struct Call {
  const void* product;
  const void* a;
  const void* b;
  const void* beta;
  const void* c;
  void* d;
  const void* d_layout;
  Workspace workspace;
};

// Of a matrix that has no gaps; 0: it is not known to have none.
Bytes bytes_of(const void* layout, const Library& library) {
  std::uint32_t type = 0;
  std::int32_t order = 0;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t leading = 0;
  std::int32_t count = 0;
  std::int64_t stride = 0;
  const bool known = tells(library.layout, layout, kType, type) &&
                     tells(library.layout, layout, kOrder, order) &&
                     tells(library.layout, layout, kRows, rows) &&
                     tells(library.layout, layout, kColumns, columns) &&
                     tells(library.layout, layout, kLeading, leading) &&
                     tells(library.layout, layout, kCount, count) &&
                     tells(library.layout, layout, kStride, stride);
  const bool no_gaps = known && order == kByColumns &&
                       static_cast<std::uint64_t>(leading) == rows &&
                       (count == 1 || static_cast<std::uint64_t>(stride) == rows * columns);
  return no_gaps ? rows * columns * static_cast<std::uint64_t>(count) *
                       element_bytes(static_cast<int>(type))
                 : 0;
}

std::optional<MatrixProduct> describe(const Call& call, const Library& library) {
  std::int32_t scale = -1;
  std::int32_t pointers = -1;
  std::uint32_t epilogue = 0;
  if (!tells(library.product, call.product, kScaleType, scale) ||
      !tells(library.product, call.product, kPointerMode, pointers) ||
      !tells(library.product, call.product, kEpilogue, epilogue) || scale != kReal32 ||
      pointers != kHostPointers ||
      std::find(kKnownEpilogues.begin(), kKnownEpilogues.end(), epilogue) ==
          kKnownEpilogues.end()) {
    return std::nullopt;
  }
  for (int which = kFirstScale; which <= kLastScale; ++which) {
    const void* pointer = nullptr;
    if (tells(library.product, call.product, which, pointer) && pointer != nullptr) {
      return std::nullopt;
    }
  }
  const void* bias = nullptr;
  if ((epilogue & kAddsBias) != 0 && !tells(library.product, call.product, kBias, bias)) {
    return std::nullopt;
  }
  const bool reads_c = !is_zero(call.beta);
  return MatrixProduct{.a = place(call.a),
                       .b = place(call.b),
                       .c = reads_c ? place(call.c) : 0,
                       .bias = place(bias),
                       .d = place(call.d),
                       .made_bytes = reads_c ? 0 : bytes_of(call.d_layout, library),
                       .workspace = call.workspace.address,
                       .workspace_bytes = call.workspace.bytes};
}

using Multiply = int (*)(void* handle, void* product, const void* alpha, const void* a,
                         void* a_layout, const void* b, void* b_layout, const void* beta,
                         const void* c, void* c_layout, void* d, void* d_layout,
                         const void* algorithm, void* workspace, std::size_t workspace_bytes,
                         void* stream);

// `from`: who calls, or a function of the library that is called.
int multiply(Multiply real_call, const void* from, void* handle, void* product, const void* alpha,
             const void* a, void* a_layout, const void* b, void* b_layout, const void* beta,
             const void* c, void* c_layout, void* d, void* d_layout, const void* algorithm,
             void* workspace, std::size_t workspace_bytes, void* stream) {
  const auto describe_it = [&] {
    return describe({product, a, b, beta, c, d, d_layout, {place(workspace), workspace_bytes}},
                    library_of(from));
  };
  const DescribedCall call(describe_it);
  return real_call(handle, product, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
                   algorithm, workspace, workspace_bytes, stream);
}

}  // namespace lt

// --- The calls ----------------------------------------------------------------------------------

template <typename Function>
struct Cublas {
  const void* caller = nullptr;
  Function function = nullptr;
};

// What a caller in this thread would have called without us.
template <typename Function>
Function real_function(OfCallers<Cublas<Function>>& known, const char* name, Function ours,
                       const void* caller) {
  return known
      .of(caller,
          [&] {
            return Cublas<Function>{.caller = caller,
                                    .function = without_us_as(name, ours, caller)};
          })
      .function;
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;

// NOLINTBEGIN(bugprone-macro-parentheses): a name
#define SPILLWAY_CUBLAS(symbol)                                                           \
  static constinit thread_local cuda::OfCallers<cuda::Cublas<decltype(&symbol)>> callers; \
  const void* const caller = __builtin_return_address(0);                                 \
  auto* const real_call = cuda::real_function(callers, #symbol, &symbol, caller);         \
  if (real_call == nullptr) {                                                             \
    return cuda::kCublasNotInitialized;                                                   \
  }
// NOLINTEND(bugprone-macro-parentheses)

extern "C" {

int cublasSetWorkspace_v2(void* handle, void* workspace, std::size_t bytes) {
  SPILLWAY_CUBLAS(cublasSetWorkspace_v2)
  const int result = real_call(handle, workspace, bytes);
  if (result == cuda::kCublasSuccess) {
    cuda::set_workspace(handle, {.address = cuda::place(workspace), .bytes = bytes});
  }
  return result;
}
// The handle may be another's next, with a workspace that the library makes.
int cublasDestroy_v2(void* handle) {
  SPILLWAY_CUBLAS(cublasDestroy_v2)
  cuda::set_workspace(handle, {});
  return real_call(handle);
}
// It has its own workspace again.
int cublasSetStream_v2(void* handle, void* stream) {
  SPILLWAY_CUBLAS(cublasSetStream_v2)
  cuda::set_workspace(handle, {});
  return real_call(handle, stream);
}

int cublasGemmEx(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
                 const void* alpha, const void* a, int type_a, int lda, const void* b, int type_b,
                 int ldb, const void* beta, void* c, int type_c, int ldc, int compute,
                 int algorithm) {
  SPILLWAY_CUBLAS(cublasGemmEx)
  const auto describe = [&] {
    return cuda::scales_by_float(compute) ? cuda::describe({handle, a, b, beta, c, m, n, ldc, 0, 1,
                                                            cuda::element_bytes(type_c)},
                                                           cuda::library_of(caller))
                                          : std::nullopt;
  };
  const cuda::DescribedCall call(describe);
  return real_call(handle, transpose_a, transpose_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb,
                   beta, c, type_c, ldc, compute, algorithm);
}

int cublasGemmStridedBatchedEx(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
                               const void* alpha, const void* a, int type_a, int lda,
                               long long stride_a, const void* b, int type_b, int ldb,
                               long long stride_b, const void* beta, void* c, int type_c, int ldc,
                               long long stride_c, int count, int compute, int algorithm) {
  SPILLWAY_CUBLAS(cublasGemmStridedBatchedEx)
  const auto describe = [&] {
    return cuda::scales_by_float(compute)
               ? cuda::describe({handle, a, b, beta, c, m, n, ldc, stride_c, count,
                                 cuda::element_bytes(type_c)},
                                cuda::library_of(caller))
               : std::nullopt;
  };
  const cuda::DescribedCall call(describe);
  return real_call(handle, transpose_a, transpose_b, m, n, k, alpha, a, type_a, lda, stride_a, b,
                   type_b, ldb, stride_b, beta, c, type_c, ldc, stride_c, count, compute,
                   algorithm);
}

int cublasSgemm_v2(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
                   const float* alpha, const float* a, int lda, const float* b, int ldb,
                   const float* beta, float* c, int ldc) {
  SPILLWAY_CUBLAS(cublasSgemm_v2)
  const auto describe = [&] {
    return cuda::describe(
        {handle, a, b, beta, c, m, n, ldc, 0, 1, cuda::element_bytes(cuda::kReal32)},
        cuda::library_of(caller));
  };
  const cuda::DescribedCall call(describe);
  return real_call(handle, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

int cublasLtMatmul(void* handle, void* product, const void* alpha, const void* a, void* a_layout,
                   const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                   void* d, void* d_layout, const void* algorithm, void* workspace,
                   std::size_t workspace_bytes, void* stream) {
  SPILLWAY_CUBLAS(cublasLtMatmul)
  return cuda::lt::multiply(real_call, caller, handle, product, alpha, a, a_layout, b, b_layout,
                            beta, c, c_layout, d, d_layout, algorithm, workspace, workspace_bytes,
                            stream);
}

}  // extern "C"

namespace spillway::cuda {
namespace {

std::atomic<lt::Multiply> found_multiply{nullptr};

// What who has looked the function up is given.
int multiply_as_found(void* handle, void* product, const void* alpha, const void* a, void* a_layout,
                      const void* b, void* b_layout, const void* beta, const void* c,
                      void* c_layout, void* d, void* d_layout, const void* algorithm,
                      void* workspace, std::size_t workspace_bytes, void* stream) {
  const lt::Multiply real_call = found_multiply.load(std::memory_order_acquire);
  return lt::multiply(real_call, reinterpret_cast<const void*>(real_call), handle, product, alpha,
                      a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm,
                      workspace, workspace_bytes, stream);
}

}  // namespace

bool is_looked_up_cublas(std::string_view name) { return name == "cublasLtMatmul"; }

void* hook_of_cublas(void* found) {
  const auto function = reinterpret_cast<lt::Multiply>(found);
  if (function == nullptr || function == &::cublasLtMatmul) {
    return nullptr;
  }
  lt::Multiply first = nullptr;
  if (!found_multiply.compare_exchange_strong(first, function) && first != function) {
    return nullptr;
  }
  keep_loaded(found);
  return reinterpret_cast<void*>(&multiply_as_found);
}

}  // namespace spillway::cuda
