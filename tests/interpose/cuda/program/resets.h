// Jobs that leave everything behind and end with their context. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// A device that is reset after each job (cudaDeviceReset).
void resets(const Device& device);
// A context of its own for each job.
void contexts_that_end(const Device& device);
// Both with captures that nobody has ended.
void captures_that_stay_open(const Device& device);

}  // namespace spillway::cuda::test
