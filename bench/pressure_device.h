// An H200 as the fake driver plays it for pressure_bench: what its calls, copies and kernels take
// (docs/gpu.md), without the bytes. Layer: benchmarks.
#pragma once

#include <cstddef>

#include "base/units.h"
#include "fake_cuda.h"
#include "platform/cuda/driver/driver.h"

namespace spillway::cuda {

// Of the kernel's parameters: how long it takes in ns, then addresses; 0 for none.
inline constexpr std::size_t kKernelWords = 256;

// All times so many times as long: on a machine that others use as well, what waiting for a
// processor takes then counts less.
[[nodiscard]] FakeCudaConfig device_like_an_h200(int slower);

// Takes its time. The driver checks that each of its addresses has memory when it begins.
[[nodiscard]] CuFunction make_kernel();

}  // namespace spillway::cuda
