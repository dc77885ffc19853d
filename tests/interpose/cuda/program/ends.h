// Kernels that are given nothing but the ends of arrays, as by reverse iterators. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// Of large arrays, of small ones that lie side by side, and in a table on the device.
void ends_of_arrays(const Device& device);
// The same of tensors that lie side by side in memory that the program maps itself.
void ends_of_expandable_tensors(const Device& device);
// Of what the program has mapped, in a table that a graph reads.
void ends_of_mapped_memory(const Device& device);

}  // namespace spillway::cuda::test
