// The CUDA runtime's allocations in the order of a stream, which PyTorch makes with every launch:
// served before the runtime asks the driver a dozen things for each. Layer: front, cuda. All else
// of the runtime reaches us through the driver; so do these where they are not served here (a
// runtime that is linked into the program, memory or devices that are not ours), and whenever one
// fails, so that the runtime knows of its error.
#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <string>
#include <vector>

#include "front/cuda/hook_table.h"
#include "front/cuda/real_symbols.h"
#include "front/cuda/session.h"

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

// What a loaded library, or one that was loaded for it, has by this name, if that is not ours.
void* found_by(const char* library, const char* name, const void* ours) {
  void* const scope = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (scope == nullptr) {
    return nullptr;
  }
  void* const found = real_dlsym()(scope, name);
  ::dlclose(scope);
  return found == ours ? nullptr : found;
}

std::vector<std::string> libraries() {
  std::vector<std::string> names;
  const auto note = [](dl_phdr_info* library, std::size_t /*bytes*/, void* all) {
    if (library->dlpi_name != nullptr && *library->dlpi_name != '\0') {
      static_cast<std::vector<std::string>*>(all)->emplace_back(library->dlpi_name);
    }
    return 0;
  };
  ::dl_iterate_phdr(note, &names);
  return names;
}

// The function that a caller would have without us. Programs may have several runtimes, each in
// the scope of those that were linked with it. Where that does not tell (a call in place of a
// return looks like one of its caller's) whichever is loaded serves: they share their contexts.
void* without_us(const char* name, const void* ours, const void* caller) {
  Dl_info info{};
  void* found = nullptr;
  if (::dladdr(caller, &info) != 0 && info.dli_fname != nullptr) {
    found = found_by(info.dli_fname, name, ours);
  }
  found = found != nullptr ? found : real_dlsym()(RTLD_NEXT, name);
  if (found == nullptr) {
    for (const std::string& library : libraries()) {
      found = found != nullptr ? found : found_by(library.c_str(), name, ours);
    }
  }
  return found;
}

// One of the runtime's functions as the last caller in this thread would have it.
template <typename Function>
struct Real {
  const char* name;
  void* caller = nullptr;
  Function function = nullptr;

  [[nodiscard]] Function of(void* new_caller, Function ours) {
    if (caller != new_caller) {
      function = reinterpret_cast<Function>(
          without_us(name, reinterpret_cast<const void*>(ours), new_caller));
      caller = new_caller;
    }
    return function;
  }
};

// Before CUDA 12 the runtime's device may be another than the one whose context is current, until
// it is first needed. Of the last caller in this thread.
bool device_is_current(void* caller) {
  constexpr int kSince = 12000;
  static constinit thread_local void* asked_by = nullptr;
  static constinit thread_local bool is = false;
  if (asked_by != caller) {
    auto* const ask =
        reinterpret_cast<VersionCall>(without_us("cudaRuntimeGetVersion", nullptr, caller));
    int version = 0;
    is = ask != nullptr && ask(&version) == kRuntimeSuccess && version >= kSince;
    asked_by = caller;
  }
  return is;
}

// The session, if what the calling thread allocates now is its.
const Session* serving(void* caller) {
  const Session* const here = session();
  CuDevice device = 0;
  return here != nullptr && real().cuCtxGetDevice(&device) == CuResult::kSuccess &&
                 device == here->device && device_is_current(caller)
             ? here
             : nullptr;
}

// `ours` is what stands in front of the runtime's function, whose place among the driver's
// `our_call` is.
int allocate(Real<AllocateCall>& runtime, AllocateCall ours, AllocateOnStream our_call,
             void* caller, void** address, std::size_t bytes, CuStream stream) {
  if (address != nullptr && bytes > 0 && serving(caller) != nullptr) {
    CuAddress made = 0;
    if (our_call(&made, bytes, stream) == CuResult::kSuccess) {
      *address = reinterpret_cast<void*>(made);  // NOLINT(performance-no-int-to-ptr)
      return kRuntimeSuccess;
    }
  }
  const AllocateCall call = runtime.of(caller, ours);
  return call == nullptr ? kRuntimeSymbolNotFound : call(address, bytes, stream);
}

int free(Real<FreeCall>& runtime, FreeCall ours, FreeOnStream our_call, void* caller, void* address,
         CuStream stream) {
  const auto place = reinterpret_cast<CuAddress>(address);
  const Session* const here = address == nullptr ? nullptr : serving(caller);
  if (here != nullptr && here->platform->contains(place) &&
      our_call(place, stream) == CuResult::kSuccess) {
    return kRuntimeSuccess;
  }
  const FreeCall call = runtime.of(caller, ours);
  return call == nullptr ? kRuntimeSymbolNotFound : call(address, stream);
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using spillway::cuda::CuStream;

// One and its twin whose stream 0 is the calling thread's.
#define SPILLWAY_RUNTIME_MEMORY(suffix)                                                        \
  int cudaMallocAsync##suffix(void** address, std::size_t bytes, CuStream stream) {            \
    static constinit thread_local cuda::Real<cuda::AllocateCall> runtime{                      \
        "cudaMallocAsync" #suffix};                                                            \
    return cuda::allocate(runtime, &cudaMallocAsync##suffix, &cuMemAllocAsync##suffix,         \
                          __builtin_return_address(0), address, bytes, stream);                \
  }                                                                                            \
  int cudaFreeAsync##suffix(void* address, CuStream stream) {                                  \
    static constinit thread_local cuda::Real<cuda::FreeCall> runtime{"cudaFreeAsync" #suffix}; \
    return cuda::free(runtime, &cudaFreeAsync##suffix, &cuMemFreeAsync##suffix,                \
                      __builtin_return_address(0), address, stream);                           \
  }

extern "C" {

SPILLWAY_RUNTIME_MEMORY()
SPILLWAY_RUNTIME_MEMORY(_ptsz)

}  // extern "C"
