// A stream that stands until the host lets it go (a kernel that looks at a flag in mapped memory),
// with more behind it than the budget holds. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// Kernels, more than the program may otherwise be ahead.
void kernels_behind_a_flag(const Device& device);
// Copies and memsets among them.
void copies_behind_a_flag(const Device& device);
// The host raises it when another stream has ended what it was given.
void another_stream_before_a_flag(const Device& device);

}  // namespace spillway::cuda::test
