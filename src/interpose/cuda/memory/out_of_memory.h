// What a person is told where the space has no more memory for so many bytes, and what is counted.
// Layer: interpose, cuda. Thread-safe.
#pragma once

#include "base/error.h"
#include "base/units.h"

namespace spillway::cuda {

// A line, at most one a second: programs try what they can get.
void say_out_of_memory(const Error& error, Bytes bytes);

}  // namespace spillway::cuda
