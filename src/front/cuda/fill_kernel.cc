// See fill_kernel.h.
#include "front/cuda/fill_kernel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "front/cuda/hook_table.h"

namespace spillway::cuda {
namespace {

// Written by who loads, and read once `context_of_kernel` says so.
constinit CuFunction kernel = nullptr;
constinit std::atomic<CuContext> context_of_kernel{nullptr};
constinit std::atomic<bool> lost{false};

constexpr unsigned kThreads = 256;
constexpr std::size_t kPieceBytes = 16;
// More than the largest device runs at once gain nothing.
constexpr std::size_t kMostBlocks = 2048;

CuResult launch(CuFunction function, const Fill& fill, CuStream stream) {
  CuAddress to = fill.to;
  std::uint64_t bytes = fill.bytes;
  std::uint32_t pattern = fill.pattern;
  std::array<void*, 3> parameters = {&to, &bytes, &pattern};
  const std::size_t pieces = fill.bytes / kPieceBytes + 2;
  const auto blocks =
      static_cast<unsigned>(std::min((pieces + kThreads - 1) / kThreads, kMostBlocks));
  return real().cuLaunchKernel(function, blocks, 1, 1, kThreads, 1, 1, 0, stream, parameters.data(),
                               nullptr);
}

// The program may have filled the device with something that waits for it.
bool ends_soon(CuStream stream) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  CuResult result = CuResult::kNotReady;
  while (result == CuResult::kNotReady && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
    result = real().cuStreamQuery(stream);
  }
  return result == CuResult::kSuccess;
}

// Whether it does what a memset does: at each offset, with whole pieces and without. In pinned
// memory, which a kernel reaches like its own, and which nobody has to wait for to read. It stays:
// to give it back would wait for the whole device.
bool works(CuFunction function) {
  constexpr std::size_t kBytes = 4096;
  constexpr std::uint32_t kPattern = 0x04030201;
  void* memory = nullptr;
  CuStream stream = nullptr;
  if (real().cuMemHostAlloc(&memory, kBytes, kCuHostAllocPortable) != CuResult::kSuccess ||
      real().cuStreamCreate(&stream, kCuStreamNonBlocking) != CuResult::kSuccess) {
    return false;
  }
  auto* const bytes = static_cast<unsigned char*>(memory);
  std::memset(bytes, 0, kBytes);
  struct Part {
    std::size_t from;
    std::size_t to;
  };
  bool right = true;
  const std::array parts = {Part{1, 2}, Part{19, 30}, Part{37, 90}, Part{128, 160},
                            Part{211, 4001}};
  for (const Part& part : parts) {
    const Fill fill{.to = reinterpret_cast<CuAddress>(bytes + part.from),
                    .bytes = part.to - part.from,
                    .pattern = kPattern};
    right = right && launch(function, fill, stream) == CuResult::kSuccess;
  }
  right = right && ends_soon(stream);
  for (std::size_t i = 0; i < kBytes; ++i) {
    const bool within = std::any_of(parts.begin(), parts.end(), [i](const Part& part) {
      return i >= part.from && i < part.to;
    });
    right = right && bytes[i] == (within ? i % 4 + 1 : 0);
  }
  (void)real().cuStreamDestroy_v2(stream);
  return right;
}

}  // namespace

void load_fill_kernel() {
  CuModule module = nullptr;
  CuContext context = nullptr;
  CuFunction loaded = nullptr;
  if (real().cuCtxGetCurrent(&context) == CuResult::kSuccess &&
      real().cuModuleLoadData(&module, kFillPtx) == CuResult::kSuccess &&
      real().cuModuleGetFunction(&loaded, module, "spillway_fill") == CuResult::kSuccess &&
      works(loaded)) {
    kernel = loaded;
    context_of_kernel.store(context, std::memory_order_release);
  }
}

void forget_fill_kernel(CuContext context) {
  if (context != nullptr && context_of_kernel.compare_exchange_strong(context, nullptr)) {
    lost = true;
  }
}

bool fill_kernel_is_lost() { return lost.load(std::memory_order_relaxed); }

bool take_lost_fill_kernel() { return lost.exchange(false); }

bool has_fill_kernel() {
  const CuContext context = context_of_kernel.load(std::memory_order_acquire);
  CuContext current = nullptr;
  return context != nullptr && real().cuCtxGetCurrent(&current) == CuResult::kSuccess &&
         current == context;
}

CuResult launch_fill(const Fill& fill, CuStream stream) { return launch(kernel, fill, stream); }

}  // namespace spillway::cuda
