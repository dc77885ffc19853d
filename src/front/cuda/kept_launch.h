// Kernels that can be launched again: of what is known to make one tensor out of others, everything
// that it was given. Layer: front, cuda. docs/recomputing.md.
#pragma once

#include <optional>
#include <span>

#include "front/cuda/kernel_layouts.h"
#include "front/cuda/session.h"

namespace spillway::cuda {

// Without attributes.
struct LaunchShape {
  CuFunction function = nullptr;
  unsigned grid_x = 1;
  unsigned grid_y = 1;
  unsigned grid_z = 1;
  unsigned block_x = 1;
  unsigned block_y = 1;
  unsigned block_z = 1;
  unsigned shared_bytes = 0;
};

// What the launch makes, all that the program has asked for: if the kernel is known to write
// nothing but that operand, from its start, and to read nothing but others, all of it the space's.
[[nodiscard]] std::optional<CudaOperand> only_result(const Session& session,
                                                     const KernelLayout& kernel,
                                                     void* const* parameters,
                                                     std::span<const CudaOperand> operands);

// `parameters` as the launch was given them; they are copied.
[[nodiscard]] KeptLaunch keep_launch(const CudaOperand& makes, const LaunchShape& shape,
                                     const KernelLayout& kernel, void* const* parameters);

}  // namespace spillway::cuda
