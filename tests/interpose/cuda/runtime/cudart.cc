// A CUDA runtime of a few functions, which finds the driver as the real one does. Test library.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace {

using Allocate = unsigned (*)(std::uint64_t* address, std::size_t bytes, void* stream);
using Free = unsigned (*)(std::uint64_t address, void* stream);

template <typename Call>
Call driver(const char* symbol) {
  return reinterpret_cast<Call>(::dlsym(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), symbol));
}

int calls = 0;
int versions_asked = 0;
unsigned last_error = 0;

int answer(unsigned result) {
  ++calls;
  last_error = result == 0 ? last_error : result;
  return static_cast<int>(result);
}

}  // namespace

extern "C" {

int cudaMallocAsync(void** address, std::size_t bytes, void* stream) {
  std::uint64_t made = 0;
  const unsigned result = driver<Allocate>("cuMemAllocAsync")(&made, bytes, stream);
  *address = reinterpret_cast<void*>(made);  // NOLINT(performance-no-int-to-ptr)
  return answer(result);
}
int cudaFreeAsync(void* address, void* stream) {
  return answer(driver<Free>("cuMemFreeAsync")(reinterpret_cast<std::uint64_t>(address), stream));
}
int cudaRuntimeGetVersion(int* version) {
  ++versions_asked;
  *version = 13000;
  return 0;
}
int cudaGetLastError() {
  const unsigned error = last_error;
  last_error = 0;
  return static_cast<int>(error);
}
// Not the real one's: how many of the first two above have come to it, and of the third.
int cudart_calls() { return calls; }
int cudart_versions_asked() { return versions_asked; }

}  // extern "C"
