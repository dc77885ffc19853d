// Kernels of ours, put among the program's own (fill_kernel.h, fingerprint_kernel.h): loaded
// together into one context, each tried there, gone with it. Layer: interpose, cuda. Thread-safe.
#pragma once

#include <cstddef>

#include "platform/cuda/driver/driver_types.h"

namespace spillway::cuda {

// Loads them into the calling thread's context and tries them there. While nothing is held by a
// stream wait there: loading waits for the device, and others for who loads. One with which that
// fails is not there.
void load_own_kernels();
// A context ends, and its kernels with it.
void forget_own_kernels(CuContext context);
// Whether they were there and are gone with their context. To load them anew is tried once: `true`
// for one caller.
[[nodiscard]] bool own_kernels_are_lost();
[[nodiscard]] bool take_lost_own_kernels();

// Where a kernel is tried. In pinned memory, which a kernel reaches like its own, and which nobody
// has to wait for to read.
struct KernelTrial {
  static constexpr std::size_t kBytes = 4096;
  unsigned char* memory = nullptr;
  CuStream stream = nullptr;
};
// Whether what is on the stream has ended within a second: the program may have filled the device
// with something that waits for it.
[[nodiscard]] bool ends_soon(CuStream stream);

struct OwnKernel {
  const char* name;
  const char* source;  // PTX, for the driver to translate
  // Whether it does what it should. If so, nothing of the trial runs any more.
  bool (*works)(CuFunction function, const KernelTrial& trial);
  // Written by who loads, and read once `has` says so.
  CuFunction function = nullptr;
};
// Whether it is there, for the calling thread's context.
[[nodiscard]] bool has(const OwnKernel& kernel);

// All of them.
extern OwnKernel copy_kernel;
extern OwnKernel fill_kernel;
extern OwnKernel fingerprint_kernel;

}  // namespace spillway::cuda
