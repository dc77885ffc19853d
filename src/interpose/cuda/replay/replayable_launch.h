// Kernels that can be launched again: of what is known to make one tensor out of others, everything
// that it was given. Layer: interpose, cuda. docs/cuda.md.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "interpose/cuda/libraries/library_calls.h"
#include "interpose/cuda/replay/replay_memory.h"
#include "interpose/cuda/replay/stored_launch.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {

// A launch as the program makes it. Valid during the call.
struct ProgramLaunch {
  CuStream stream = nullptr;
  const KernelLayout& kernel;
  void* const* parameters = nullptr;
  std::span<const std::byte> block;  // instead of them
  std::span<const CudaOperand> operands;
  LibraryCall* library = nullptr;  // whose first it is
};

// One that can be kept, and how.
struct Keeping {
  // All that the program has asked for.
  CudaOperand makes;
  std::vector<CudaOperand> reads;
  // Instead of the program's, of a matrix product that has them.
  CuAddress workspace = 0;
  CudaOperand small;  // of which there is a copy; 0 bytes: none
  std::shared_ptr<SmallCopy> copy;
};

// If the kernel is known to write nothing but one operand, from its start, and to read nothing but
// others, all of it the space's: a pointwise one of PyTorch's, or a matrix product.
[[nodiscard]] std::optional<Keeping> may_keep(const Session& session, const ProgramLaunch& launch);

// Parameters are copied.
[[nodiscard]] ReplayableLaunch keep_launch(const Session& session, const Keeping& keeping,
                                           const LaunchShape& shape, const ProgramLaunch& launch);
// Right behind it on its stream. False: the driver has refused that, and it must not be kept.
[[nodiscard]] bool put_behind(const Keeping& keeping, CuStream stream);

}  // namespace spillway::cuda
