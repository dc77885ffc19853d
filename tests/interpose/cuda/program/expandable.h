// Tensors in segments that a program maps itself, as PyTorch's allocator makes and reports them
// where its segments are expandable. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// Several times the budget is mapped side by side, and kernels use a few tensors each.
void expandable_tensors(const Device& device);
// Tensors die, and others come where they were.
void expandable_deaths(const Device& device);
// A graph uses tensors that died while it was captured, and others that came there.
void expandable_graphs(const Device& device);
// Everything, at random, compared with what it should hold.
void random_expandable(const Device& device);

}  // namespace spillway::cuda::test
