// The CUDA runtime's allocations in the order of a stream, which PyTorch makes with every launch:
// served before the runtime asks the driver a dozen things for each. Layer: front, cuda. All else
// of the runtime reaches us through the driver; so do these where they are not served here (a
// runtime that is linked into the program, memory or devices that are not ours), and whenever one
// fails, so that the runtime knows of its error.
#include <dlfcn.h>
#include <link.h>

#include <array>
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

// What is remembered stays: a program may close the library that has brought it.
void keep_loaded(const void* function) {
  Dl_info info{};
  if (function != nullptr && ::dladdr(function, &info) != 0 && info.dli_fname != nullptr) {
    [[maybe_unused]] void* const kept =
        ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

// One of the runtime's functions by who calls it, as the last callers in this thread had it: the
// same few call it all the time, and to find out costs as much as a launch.
template <typename Function>
class Runtime {
 public:
  struct Caller {
    const void* at = nullptr;
    Function function = nullptr;  // that it would have without us
    // Before CUDA 12 the runtime's device may be another than the one whose context is current,
    // until it is first needed.
    bool device_is_current = false;
  };

  explicit constexpr Runtime(const char* name) : name_(name) {}
  [[nodiscard]] const Caller& known(const void* at, Function ours) {
    for (const Caller& caller : callers_) {
      if (caller.at == at) {
        return caller;
      }
    }
    const Caller caller{.at = at,
                        .function = reinterpret_cast<Function>(
                            without_us(name_, reinterpret_cast<const void*>(ours), at)),
                        .device_is_current = is_since_12(at)};
    keep_loaded(reinterpret_cast<const void*>(caller.function));
    // One that finds nothing asks again: its runtime may be loaded later.
    return (caller.function == nullptr ? missed_ : callers_[next_++ % callers_.size()]) = caller;
  }

 private:
  static bool is_since_12(const void* at) {
    constexpr int kSince = 12000;
    auto* const ask =
        reinterpret_cast<VersionCall>(without_us("cudaRuntimeGetVersion", nullptr, at));
    int version = 0;
    return ask != nullptr && ask(&version) == kRuntimeSuccess && version >= kSince;
  }

  const char* name_;
  std::array<Caller, 8> callers_{};
  Caller missed_;
  std::size_t next_ = 0;
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
int allocate(const Runtime<AllocateCall>::Caller& caller, AllocateOnStream our_call, void** address,
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

int free(const Runtime<FreeCall>::Caller& caller, FreeOnStream our_call, void* address,
         CuStream stream) {
  const auto place = reinterpret_cast<CuAddress>(address);
  const Session* const here = address == nullptr ? nullptr : serving(caller);
  if (here != nullptr && here->platform->contains(place) &&
      our_call(place, stream) == CuResult::kSuccess) {
    return kRuntimeSuccess;
  }
  return caller.function == nullptr ? kRuntimeSymbolNotFound : caller.function(address, stream);
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using spillway::cuda::CuStream;

// One and its twin whose stream 0 is the calling thread's.
#define SPILLWAY_RUNTIME_MEMORY(suffix)                                                           \
  int cudaMallocAsync##suffix(void** address, std::size_t bytes, CuStream stream) {               \
    static constinit thread_local cuda::Runtime<cuda::AllocateCall> runtime{                      \
        "cudaMallocAsync" #suffix};                                                               \
    return cuda::allocate(runtime.known(__builtin_return_address(0), &cudaMallocAsync##suffix),   \
                          &cuMemAllocAsync##suffix, address, bytes, stream);                      \
  }                                                                                               \
  int cudaFreeAsync##suffix(void* address, CuStream stream) {                                     \
    static constinit thread_local cuda::Runtime<cuda::FreeCall> runtime{"cudaFreeAsync" #suffix}; \
    return cuda::free(runtime.known(__builtin_return_address(0), &cudaFreeAsync##suffix),         \
                      &cuMemFreeAsync##suffix, address, stream);                                  \
  }

extern "C" {

SPILLWAY_RUNTIME_MEMORY()
SPILLWAY_RUNTIME_MEMORY(_ptsz)

}  // extern "C"
