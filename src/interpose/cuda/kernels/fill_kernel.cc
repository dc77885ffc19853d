// See fill_kernel.h.
#include "interpose/cuda/kernels/fill_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/kernels/own_kernels.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kFillThreads = 256;
constexpr std::size_t kFillPieceBytes = 16;
// More than the largest device runs at once gain nothing.
constexpr std::size_t kMostFillBlocks = 2048;

CuResult launch_fill_as(CuFunction function, const Fill& fill, CuStream stream) {
  CuAddress to = fill.to;
  std::uint64_t bytes = fill.bytes;
  std::uint32_t pattern = fill.pattern;
  std::array<void*, 3> parameters = {&to, &bytes, &pattern};
  const std::size_t pieces = fill.bytes / kFillPieceBytes + 2;
  const auto blocks =
      static_cast<unsigned>(std::min((pieces + kFillThreads - 1) / kFillThreads, kMostFillBlocks));
  return real().cuLaunchKernel(function, blocks, 1, 1, kFillThreads, 1, 1, 0, stream,
                               parameters.data(), nullptr);
}

// Whether it does what a memset does: at each offset, with whole pieces and without.
bool fill_works(CuFunction function, const KernelTrial& trial) {
  constexpr std::uint32_t kPattern = 0x04030201;
  unsigned char* const bytes = trial.memory;
  std::memset(bytes, 0, KernelTrial::kBytes);
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
    right = right && launch_fill_as(function, fill, trial.stream) == CuResult::kSuccess;
  }
  right = right && ends_soon(trial.stream);
  for (std::size_t i = 0; i < KernelTrial::kBytes; ++i) {
    const bool within = std::any_of(parts.begin(), parts.end(), [i](const Part& part) {
      return i >= part.from && i < part.to;
    });
    right = right && bytes[i] == (within ? i % 4 + 1 : 0);
  }
  return right;
}

}  // namespace

constinit OwnKernel fill_kernel{.name = "spillway_fill", .source = kFillPtx, .works = fill_works};

bool has_fill_kernel() { return has(fill_kernel); }

CuResult launch_fill(const Fill& fill, CuStream stream) {
  return launch_fill_as(fill_kernel.function, fill, stream);
}

}  // namespace spillway::cuda
