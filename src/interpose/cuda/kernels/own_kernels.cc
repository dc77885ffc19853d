// See own_kernels.h.
#include "interpose/cuda/kernels/own_kernels.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "interpose/cuda/hooks/hook_table.h"

namespace spillway::cuda {
namespace {

// Set once the kernels' functions are written.
constinit std::atomic<CuContext> context_of_kernels{nullptr};
constinit std::atomic<bool> kernels_lost{false};

CuFunction load_and_try(const OwnKernel& kernel, const KernelTrial& trial) {
  CuModule module = nullptr;
  CuFunction loaded = nullptr;
  const bool works =
      real().cuModuleLoadData(&module, kernel.source) == CuResult::kSuccess &&
      real().cuModuleGetFunction(&loaded, module, kernel.name) == CuResult::kSuccess &&
      kernel.works(loaded, trial);
  return works ? loaded : nullptr;
}

}  // namespace

bool ends_soon(CuStream stream) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  CuResult result = CuResult::kNotReady;
  while (result == CuResult::kNotReady && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
    result = real().cuStreamQuery(stream);
  }
  return result == CuResult::kSuccess;
}

// The memory stays: to give it back would wait for the whole device.
void load_own_kernels() {
  CuContext context = nullptr;
  void* memory = nullptr;
  KernelTrial trial;
  if (real().cuCtxGetCurrent(&context) != CuResult::kSuccess ||
      real().cuMemHostAlloc(&memory, KernelTrial::kBytes, kCuHostAllocPortable) !=
          CuResult::kSuccess ||
      real().cuStreamCreate(&trial.stream, kCuStreamNonBlocking) != CuResult::kSuccess) {
    return;
  }
  trial.memory = static_cast<unsigned char*>(memory);
  bool any = false;
  for (OwnKernel* const kernel : {&copy_kernel, &fill_kernel, &fingerprint_kernel}) {
    kernel->function = load_and_try(*kernel, trial);
    any = any || kernel->function != nullptr;
  }
  if (any) {
    context_of_kernels.store(context, std::memory_order_release);
  }
  (void)real().cuStreamDestroy_v2(trial.stream);
}

void forget_own_kernels(CuContext context) {
  if (context != nullptr && context_of_kernels.compare_exchange_strong(context, nullptr)) {
    kernels_lost = true;
  }
}

bool own_kernels_are_lost() { return kernels_lost.load(std::memory_order_relaxed); }

bool take_lost_own_kernels() { return kernels_lost.exchange(false); }

bool has(const OwnKernel& kernel) {
  const CuContext context = context_of_kernels.load(std::memory_order_acquire);
  CuContext current = nullptr;
  return context != nullptr && kernel.function != nullptr &&
         real().cuCtxGetCurrent(&current) == CuResult::kSuccess && current == context;
}

}  // namespace spillway::cuda
