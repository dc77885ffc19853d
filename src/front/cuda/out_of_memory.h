// What a person is told where the space has no more memory. Layer: front, cuda. Thread-safe.
#pragma once

#include "base/error.h"

namespace spillway::cuda {

// A line, at most one a second: programs try what they can get.
void say_out_of_memory(const Error& error);

}  // namespace spillway::cuda
