// The optimizer's step of a trace as updates of one parameter each. Layer: analysis.
// A fused kernel updates many parameters at once: at the host, and split between both sides, each
// is one by itself (docs/simulator.md).
#pragma once

#include <string_view>
#include <vector>

#include "trace/trace.h"

namespace spillway {

struct TracedUpdate {
  TensorId parameter = 0;
  TensorId gradient = 0;
  std::vector<TensorId> states;
  TimeNs duration_ns = 0;        // its part, by bytes, of the kernels that are replaced
  KernelIndex kernel = 0;        // the first of those that updates it
  KernelIndex ready_behind = 0;  // the last kernel that has to run before it
};

struct TracedUpdates {
  std::vector<TracedUpdate> updates;
  std::vector<bool> replaced;  // by kernel: the updates stand for all that it does
};

// Whether a kernel of this name is, or contains, an optimizer's step over many tensors.
[[nodiscard]] bool updates_many(std::string_view kernel_name);

// Of the kernels of such names those that read gradients and write parameters and states. Operands
// are in the order of PyTorch's lists, with leftovers of other launches behind each: parameters are
// persistent, and other kernels use them; gradients are not persistent; states are persistent, and
// nobody else uses them. The trace must be valid (validate_trace).
[[nodiscard]] TracedUpdates find_updates(const Trace& trace);

}  // namespace spillway
