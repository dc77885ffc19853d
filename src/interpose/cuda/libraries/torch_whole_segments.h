// Whether PyTorch's caching allocator divides what is large (docs/interposer.md). Layer: interpose,
// cuda. Thread-safe.
#pragma once

#include "base/units.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {

// Before the program gets `bytes` more of device memory by cuMemAlloc. Once it has more than half
// of the budget, PyTorch's allocator is asked not to divide what is large, unless the user has said
// how it divides: what has a segment for itself moves and dies by itself. Not before: undivided,
// what is free in one segment is of no use to smaller tensors, and the program takes more.
void prefer_whole_segments(const Session& session, Bytes bytes);

// Before the program is told that there is no memory. PyTorch gives back what is large and free
// then, and takes for granted that nothing large was ever divided.
void divide_again();

}  // namespace spillway::cuda
