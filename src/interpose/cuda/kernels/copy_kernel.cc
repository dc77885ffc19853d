// See copy_kernel.h.
#include "interpose/cuda/kernels/copy_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/kernels/own_kernels.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kCopyThreads = 256;
constexpr std::size_t kMostCopyBlocks = 256;

CuResult launch_copy_as(CuFunction function, CuAddress from, CuAddress to, std::uint64_t bytes,
                        CuStream stream) {
  std::array<void*, 3> parameters = {&from, &to, &bytes};
  const auto blocks = static_cast<unsigned>(
      std::min<std::size_t>((bytes + kCopyThreads - 1) / kCopyThreads, kMostCopyBlocks));
  return real().cuLaunchKernel(function, blocks, 1, 1, kCopyThreads, 1, 1, 0, stream,
                               parameters.data(), nullptr);
}

// All of some bytes, and none beside them.
bool copy_works(CuFunction function, const KernelTrial& trial) {
  constexpr std::size_t kBytes = 1003;
  constexpr std::size_t kTo = 2001;
  unsigned char* const bytes = trial.memory;
  for (std::size_t i = 0; i < KernelTrial::kBytes; ++i) {
    bytes[i] = static_cast<unsigned char>(i * 7 + i / 256);
  }
  std::array<unsigned char, KernelTrial::kBytes> expected;
  std::memcpy(expected.data(), bytes, expected.size());
  std::memcpy(expected.data() + kTo, bytes + 1, kBytes);
  return launch_copy_as(function, reinterpret_cast<CuAddress>(bytes + 1),
                        reinterpret_cast<CuAddress>(bytes + kTo), kBytes,
                        trial.stream) == CuResult::kSuccess &&
         ends_soon(trial.stream) && std::memcmp(bytes, expected.data(), expected.size()) == 0;
}

}  // namespace

constinit OwnKernel copy_kernel{.name = "spillway_copy", .source = kCopyPtx, .works = copy_works};

bool has_copy_kernel() { return has(copy_kernel); }

CuResult launch_copy(CuAddress from, CuAddress to, std::size_t bytes, CuStream stream) {
  return launch_copy_as(copy_kernel.function, from, to, bytes, stream);
}

}  // namespace spillway::cuda
