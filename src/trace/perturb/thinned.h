// A network without some of its layers. Layer: trace, internal to perturb.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/trace.h"

namespace spillway {

// The kernels of a valid trace without layers (layers.h) that `seed` draws, at most a quarter of
// all kernels. What read an intermediate tensor that is no longer made reads the last one of equal
// size that was made or used before it; where there is none, the kernel that makes it stays,
// although its layer goes. So nothing is read before it is written.
//
// The intermediate tensors are others, appended to `tensors`, which begins with the trace's own;
// the persistent ones are shared.
[[nodiscard]] std::vector<Kernel> thinned(const Trace& trace, std::uint64_t seed,
                                          std::vector<Tensor>& tensors);

}  // namespace spillway
