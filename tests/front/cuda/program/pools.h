// Memory pools of a program's own. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// Each with its limit, its statistics and its memory, until it is destroyed and after.
void memory_pools(const Device& device);

}  // namespace spillway::cuda::test
