// Memory pools of a program's own. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// Each with its limit, its statistics and its memory, until it is destroyed and after.
void memory_pools(const Device& device);
// The device's own pool has the handle of one of the host that went with the reset.
void pools_after_a_reset(const Device& device);

}  // namespace spillway::cuda::test
