// A training step as it would be with activation checkpointing by hand, in PyTorch's
// torch.utils.checkpoint: of each block of the forward pass only what leads into it is kept, and
// the block's kernels run again before its part of the backward pass. Layer: analysis.
//
// As PyTorch does without reentry: the block runs again up to the last result that is wanted.
// Copies that autocast makes of weights stay until the forward pass ends, since its cache holds
// them. Random numbers are drawn again at no cost.
#pragma once

#include <cstddef>
#include <vector>

#include "analysis/forward_blocks.h"
#include "base/error.h"
#include "trace/trace.h"

namespace spillway {

struct CheckpointedPass {
  Pass pass;
  std::vector<ForwardBlock> blocks;  // in order
  std::size_t layers = 0;            // that repeat, in each block; 0: blocks are even parts
};
using Checkpoints = std::vector<CheckpointedPass>;  // in order

// Of choices with which the peak is within a fifth of the least: single layers that repeat, else
// the fewest of them together in a block, else the fewest even parts. Fails with kUnsupported where
// the trace has no backward pass. The trace must be valid.
[[nodiscard]] Result<Checkpoints> find_checkpoints(const Trace& trace, Bytes granularity_bytes);

// The step with them: a valid trace. `trace` is the one they were found in, or one with other
// sizes and times.
[[nodiscard]] Trace checkpointed(const Trace& trace, const Checkpoints& checkpoints);

}  // namespace spillway
