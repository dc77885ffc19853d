// Training steps as their memory sees them. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// Each layer keeps what a known kernel made of its input until the way back, on which an unknown
// one reads it. Weights are updated behind that.
void steps(const Device& device);

}  // namespace spillway::cuda::test
