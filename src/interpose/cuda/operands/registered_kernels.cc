// See registered_kernels.h.
#include "interpose/cuda/operands/registered_kernels.h"

#include <cstdint>
#include <unordered_map>

#include "base/mutex.h"
#include "interpose/cuda/operands/kernel_layouts.h"

namespace spillway::cuda {
namespace {

struct Told {
  std::string name;
  std::string roles;
};
struct RegisteredKernels {
  Mutex mutex;
  std::unordered_map<const void*, Told> of SPILLWAY_GUARDED_BY(mutex);
};
RegisteredKernels& registered_kernels() {
  static auto* const all =
      new RegisteredKernels;  // threads of the program may run until the very end
  return *all;
}

}  // namespace

std::string registered_roles(const void* function, std::string_view name, std::size_t parameters) {
  constexpr std::size_t kMostAdded = 2;
  const MutexLock lock(registered_kernels().mutex);
  const auto found = registered_kernels().of.find(function);
  return found != registered_kernels().of.end() && found->second.name == name &&
                 found->second.roles.size() <= parameters &&
                 parameters - found->second.roles.size() <= kMostAdded
             ? found->second.roles
             : "";
}

void forget_registered_kernels() {
  const MutexLock lock(registered_kernels().mutex);
  registered_kernels().of.clear();
}

}  // namespace spillway::cuda

extern "C" {

// What python/spillway/triton_kernels.py calls.
void spillway_kernel(std::uint64_t function, const char* name, const char* roles) {
  namespace cuda = spillway::cuda;
  const auto* const it = reinterpret_cast<const void*>(function);  // NOLINT
  bool changes = false;
  {
    const spillway::MutexLock lock(cuda::registered_kernels().mutex);
    auto& all = cuda::registered_kernels().of;
    if (roles == nullptr) {
      changes = all.erase(it) > 0;
    } else {
      cuda::Told& told = all[it];
      changes = told.name != name || told.roles != roles;
      told = {.name = name, .roles = roles};
    }
  }
  if (changes) {
    cuda::forget_kernel_layouts();
  }
}

}  // extern "C"
