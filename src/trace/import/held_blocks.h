// From allocations and frees to births and deaths of tensors. Layer: trace.
//
// What allocators report is when a block was taken and given back, not who used it. So the first
// kernel that ends behind the allocation counts as writing the block, and the last that begins
// before the free as reading it: then the trace has as much memory at each kernel as the program
// had. Many blocks may be freed at one moment; each kernel takes one of them, or it would seem to
// need all at once, so others die a few kernels early.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/error.h"
#include "trace/import/assembler.h"
#include "trace/import/iteration_choice.h"

namespace spillway {

// Positions are those of the iteration's range.
struct BlockEvent {
  std::uint64_t at = 0;
  std::uint64_t address = 0;
  Bytes bytes = 0;
  bool freed = false;
};

struct HeldBlock {
  static constexpr std::uint64_t kAlways = 0;  // before the file begins
  static constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();
  static constexpr TensorId kNoTensor = std::numeric_limits<TensorId>::max();

  Bytes bytes = 0;
  std::uint64_t address = 0;
  std::uint64_t born = kAlways;
  std::uint64_t died = kForever;
  TensorId tensor = kNoTensor;  // where it is alive in the iteration
};

// Was it there before the iteration?
[[nodiscard]] inline bool is_older(const HeldBlock& block, const IterationRange& range) {
  return block.born == HeldBlock::kAlways || block.born < range.begin;
}

// In the order of birth. An address that is allocated again without a free was freed at that
// moment. `events` are in order.
[[nodiscard]] std::vector<HeldBlock> blocks_of(const std::vector<BlockEvent>& events);

// A kernel and when the host began and ended it; on a device both are when the host started it.
struct TimedKernel {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  ImportedKernel kernel;
};

// Makes the tensors of all blocks that are alive in the range; those that are alive before and
// behind it are persistent.
[[nodiscard]] Status make_tensors(std::vector<HeldBlock>& blocks, const IterationRange& range,
                                  TraceAssembler& assembler);

// Adds the writes and reads that births and deaths of `blocks` stand for, behind those that
// `kernels` have already. `kernels` are ordered by `begin`.
void hold_blocks(const std::vector<HeldBlock>& blocks, const IterationRange& range,
                 std::vector<TimedKernel>& kernels);

}  // namespace spillway
