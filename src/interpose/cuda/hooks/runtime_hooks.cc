// The CUDA runtime's allocations in the order of a stream, which PyTorch makes with every launch:
// served before the runtime asks the driver a dozen things for each. Layer: interpose, cuda. All
// else of the runtime reaches us through the driver; so do these where they are not served here (a
// runtime that is linked into the program, memory or devices that are not ours), and whenever one
// fails, so that the runtime knows of its error.
#include <cstddef>

#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/libraries/library_functions.h"
#include "interpose/cuda/session.h"

extern "C" {

// What stands in front of the driver's.
spillway::cuda::CuResult cuMemAllocAsync(spillway::cuda::CuAddress* address, std::size_t bytes,
                                         spillway::cuda::CuStream stream);
spillway::cuda::CuResult cuMemAllocAsync_ptsz(spillway::cuda::CuAddress* address, std::size_t bytes,
                                              spillway::cuda::CuStream stream);
spillway::cuda::CuResult cuMemFreeAsync(spillway::cuda::CuAddress address,
                                        spillway::cuda::CuStream stream);
spillway::cuda::CuResult cuMemFreeAsync_ptsz(spillway::cuda::CuAddress address,
                                             spillway::cuda::CuStream stream);

}  // extern "C"

namespace spillway::cuda {
namespace {

using AllocateCall = int (*)(void**, std::size_t, CuStream);
using FreeCall = int (*)(void*, CuStream);
using VersionCall = int (*)(int*);
using AllocateOnStream = CuResult (*)(CuAddress*, std::size_t, CuStream);
using FreeOnStream = CuResult (*)(CuAddress, CuStream);
constexpr int kRuntimeSuccess = 0;
constexpr int kRuntimeSymbolNotFound = 500;

// One of the runtime's functions.
template <typename Function>
struct RuntimeFunction {
  const void* caller = nullptr;
  Function function = nullptr;
  // Before CUDA 12 the runtime's device may be another than the one whose context is current,
  // until it is first needed.
  bool device_is_current = false;
};

bool is_since_12(const void* caller) {
  constexpr int kSince = 12000;
  auto* const ask =
      reinterpret_cast<VersionCall>(without_us("cudaRuntimeGetVersion", nullptr, caller));
  int version = 0;
  return ask != nullptr && ask(&version) == kRuntimeSuccess && version >= kSince;
}

template <typename Function>
class Runtime {
 public:
  explicit constexpr Runtime(const char* name) : name_(name) {}
  [[nodiscard]] const RuntimeFunction<Function>& known(const void* caller, Function ours) {
    return functions_.of(caller, [&] {
      return RuntimeFunction<Function>{.caller = caller,
                                       .function = without_us_as(name_, ours, caller),
                                       .device_is_current = is_since_12(caller)};
    });
  }

 private:
  const char* name_;
  OfCallers<RuntimeFunction<Function>> functions_;
};

// The session, if what the calling thread allocates now is its.
template <typename Caller>
const Session* serving(const Caller& caller) {
  const Session* const here = session();
  CuDevice device = 0;
  return here != nullptr && real().cuCtxGetDevice(&device) == CuResult::kSuccess &&
                 device == here->device && caller.device_is_current
             ? here
             : nullptr;
}

// `our_call` is what stands in front of the driver's function of the same kind.
int allocate(const RuntimeFunction<AllocateCall>& caller, AllocateOnStream our_call, void** address,
             std::size_t bytes, CuStream stream) {
  if (address != nullptr && bytes > 0 && serving(caller) != nullptr) {
    CuAddress made = 0;
    if (our_call(&made, bytes, stream) == CuResult::kSuccess) {
      *address = reinterpret_cast<void*>(made);  // NOLINT(performance-no-int-to-ptr)
      return kRuntimeSuccess;
    }
  }
  return caller.function == nullptr ? kRuntimeSymbolNotFound
                                    : caller.function(address, bytes, stream);
}

int free(const RuntimeFunction<FreeCall>& caller, FreeOnStream our_call, void* address,
         CuStream stream) {
  const auto place = reinterpret_cast<CuAddress>(address);
  const Session* const here = address == nullptr ? nullptr : serving(caller);
  if (here != nullptr && here->platform->memory().contains(place) &&
      our_call(place, stream) == CuResult::kSuccess) {
    return kRuntimeSuccess;
  }
  return caller.function == nullptr ? kRuntimeSymbolNotFound : caller.function(address, stream);
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using spillway::cuda::CuStream;

// At a fixed place of the thread's own, found without a call: this library is loaded first of all.
#define SPILLWAY_OF_THREAD static constinit thread_local __attribute__((tls_model("initial-exec")))

// One and its twin whose stream 0 is the calling thread's.
#define SPILLWAY_RUNTIME_MEMORY(suffix)                                                         \
  int cudaMallocAsync##suffix(void** address, std::size_t bytes, CuStream stream) {             \
    SPILLWAY_OF_THREAD cuda::Runtime<cuda::AllocateCall> runtime{"cudaMallocAsync" #suffix};    \
    return cuda::allocate(runtime.known(__builtin_return_address(0), &cudaMallocAsync##suffix), \
                          &cuMemAllocAsync##suffix, address, bytes, stream);                    \
  }                                                                                             \
  int cudaFreeAsync##suffix(void* address, CuStream stream) {                                   \
    SPILLWAY_OF_THREAD cuda::Runtime<cuda::FreeCall> runtime{"cudaFreeAsync" #suffix};          \
    return cuda::free(runtime.known(__builtin_return_address(0), &cudaFreeAsync##suffix),       \
                      &cuMemFreeAsync##suffix, address, stream);                                \
  }

extern "C" {

SPILLWAY_RUNTIME_MEMORY()
SPILLWAY_RUNTIME_MEMORY(_ptsz)

}  // extern "C"
