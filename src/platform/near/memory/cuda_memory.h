// A GpuMemory over the CUDA driver. Layer: platform, near.
#pragma once

#include <memory>

#include "platform/cuda/driver/driver.h"
#include "platform/near/memory/gpu_memory.h"

namespace spillway::near {

// In the primary context of the device with this number, on a stream of its own. kUnsupported: no
// driver, or no such device. The path is open_driver's.
[[nodiscard]] Result<std::unique_ptr<GpuMemory>> open_cuda_memory(int device,
                                                                  const std::string& path = {});

}  // namespace spillway::near
