// A copy within the device as a launch of a kernel of ours, for the reason that fill_kernel.h gives
// for memsets. Layer: interpose, cuda. Thread-safe.
#pragma once

#include <cstddef>

#include "platform/cuda/driver/driver_types.h"

namespace spillway::cuda {

// Whether the kernel is there (own_kernels.h), for the calling thread's context.
[[nodiscard]] bool has_copy_kernel();
// Put on a stream of that context. For few bytes: it takes them one by one.
[[nodiscard]] CuResult launch_copy(CuAddress from, CuAddress to, std::size_t bytes,
                                   CuStream stream);

// The kernel's source.
extern const char kCopyPtx[];

}  // namespace spillway::cuda
