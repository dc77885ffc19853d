// Memsets of memory that is not there when they are issued. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// On a stream on which everything before uses all of the budget and does not end before the program
// says so: who waits for the memory waits for ever.
void memsets(const Device& device);

}  // namespace spillway::cuda::test
