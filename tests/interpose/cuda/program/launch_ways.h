// Kernels that come to the device by other calls, on other streams, and with other words than most.
// Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// By the calls whose stream 0 is the thread's own, from two threads; also cooperative launches, and
// with attributes.
void thread_streams(const Device& device);
// Kernels are given tensor maps, by value and in device memory.
void tensor_maps(const Device& device);
// A library's kernel on a stream of another context than the current one.
void foreign_streams(const Device& device);
// The first context that allocates ends; memsets are put behind stream waits in the next.
void next_context(const Device& device);

}  // namespace spillway::cuda::test
