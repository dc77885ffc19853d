// Training steps whose layers are matrix products of cuBLAS. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// Each layer keeps a product until the way back, on which a kernel that nobody knows reads it: half
// of them with a bias that is gone by then. One is added to what is there.
void products(const Device& device);
// All with a bias, by the function that is looked up, as cuDNN's convolutions have it.
void looked_up_products(const Device& device);

}  // namespace spillway::cuda::test
