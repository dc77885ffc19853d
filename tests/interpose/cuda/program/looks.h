// Kernels that store addresses on the device, and others that follow them without being given what
// they name. Test program.
#pragma once

#include <cstdint>

#include "device.h"

namespace spillway::cuda::test {

enum class Filled : std::uint8_t {
  kByKernel,       // that is given the table and what it is to name
  kByKernelTwice,  // the same, again with others when it has been looked at
  kByLargeCopy,    // of more than is scanned as it is copied
  kByCopyWithin,   // of a table that a kernel has filled
  kByGraph,        // by a kernel in a graph, and followed by another in one
  kInTables,       // a kernel fills one with the address of another, which a kernel has filled
};
// More than the budget is used through tables that nobody has seen being filled.
void filled_tables(const Device& device, Filled how);
// The same two kernels again and again on memory without addresses.
void looks_that_find_nothing(const Device& device);
// One has stored an address once, and stores others again and again.
void looks_that_find_something(const Device& device);
// While another stream is captured nothing is looked at.
void looks_beside_a_capture(const Device& device);

// A kernel follows an address that stands nowhere as a word, to what is not on the device.
void hidden_address(const Device& device);

}  // namespace spillway::cuda::test
