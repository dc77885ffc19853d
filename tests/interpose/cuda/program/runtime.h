// Memory that a program asks of the CUDA runtime. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// Through a library that is linked against a runtime, whose functions nobody else sees. Says how
// many calls have come to the runtime.
void by_the_runtime(const Device& device);

}  // namespace spillway::cuda::test
