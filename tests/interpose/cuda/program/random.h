// What programs do, at random, by a seed. Test program.
#pragma once

#include <cstdint>

#include "device.h"

namespace spillway::cuda::test {

// One to three threads, each with streams and memory of its own and a few blocks that all read:
// kernels, copies, memsets, tables of addresses, captures and graphs, values that streams wait for,
// calls that are refused. The host knows what every byte must be. Ends the process with one line,
// with seed, thread and step, if something is wrong. `trace` tells each step on the standard error.
void random_program(const Device& device, std::uint64_t seed, bool trace);

}  // namespace spillway::cuda::test
