// A program on a machine with little memory. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// As many buffers as it is given, all of them used; then it needs some memory of its own, and goes
// on.
void all_there_is(const Device& device);

}  // namespace spillway::cuda::test
