// Whether other processes can get memory of a device, by file descriptors. Layer: platform, cuda.
#pragma once

#include "platform/cuda/driver/driver.h"

namespace spillway::cuda {

// Found out by a trial: where processes are confined, a driver that promises it may not keep that.
// With a context of the device current.
[[nodiscard]] bool makes_descriptors(const Driver& driver, int device);

// A descriptor of the handle's memory, in the table of the calling thread; the error of the driver.
[[nodiscard]] CuResult descriptor_of(const Driver& driver, CuMemHandle handle, int& descriptor);

}  // namespace spillway::cuda
