// What waits for the device without saying so, and what does not. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// Results in pinned memory are read right behind a free.
void frees_wait(const Device& device);
// Beside captures of each mode.
void frees_beside_captures(const Device& device);

}  // namespace spillway::cuda::test
