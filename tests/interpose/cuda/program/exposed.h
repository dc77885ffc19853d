// A kernel stores the address of what it is given on the device, and another writes through it
// without being given it. Test program.
#pragma once

#include <cstdint>

#include "device.h"

namespace spillway::cuda::test {

enum class Exposes : std::uint8_t {
  kKernel,        // it is given the address
  kValues,        // one of PyTorch's that fills a tensor with a number
  kGraph,         // the first, in a graph, and so is who writes
  kCopy,          // the host, to where one of PyTorch's adds it to something else
  kWrittenValue,  // a stream writes it as a value, and one of PyTorch's adds it to something else
  kGraphsValue,   // the same by a graph
  kWhileQuiet,    // the first, while everything fits
  // A kernel keeps it in a variable of its module, and who writes is given numbers alone.
  kVariable,
  kGraphsVariable,  // the same, in graphs
};

// What was written so is there when the memory has left, although it came for being read.
void exposed(const Device& device, Exposes how);
// As often as weights are used by such a program, where nobody writes through what is stored.
void exposed_and_only_read(const Device& device);

}  // namespace spillway::cuda::test
