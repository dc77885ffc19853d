// The layers of a network, found in its trace: the kernels around the weights that they share.
// Layer: trace, internal to perturb.
//
// Persistent tensors that one forward kernel uses belong together (a weight and its bias). A kernel
// that uses such tensors of one layer and of no other is of that layer: its forward kernel, the
// gradient of its input, its updates. An update of all weights at once is of none. So are the
// kernels whose outputs only that layer's own kernels read: the gradients of its weights.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "trace/trace.h"

namespace spillway {

inline constexpr std::uint32_t kNoLayer = std::numeric_limits<std::uint32_t>::max();

struct Layers {
  std::uint32_t count = 0;
  std::vector<std::uint32_t> of;  // by KernelIndex: below count, or kNoLayer
  // By KernelIndex: the kernel is of a layer, and only kernels of which the same is true, of the
  // same layer, read the intermediate tensors that it writes. Without its layer nobody misses it.
  std::vector<bool> inner;
};

// The trace must be valid. Close to linear in it.
[[nodiscard]] Layers find_layers(const Trace& trace);

}  // namespace spillway
