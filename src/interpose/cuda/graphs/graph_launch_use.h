// What a launch of a graph uses, of all that its nodes do. Layer: interpose, cuda. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "interpose/cuda/graphs/graph_use.h"
#include "policy/prediction/launch_hash.h"

namespace spillway::cuda {

// Each allocation once, of the nodes that are enabled.
struct GraphLaunchUse {
  std::vector<CudaOperand> operands;
  std::unordered_map<std::uint64_t, std::size_t> by_start;  // place among them
  std::vector<CarryingCopy> copies;
  std::vector<WrittenValue> values;
  bool exposes = false;  // some of the operands
  bool reaches = false;  // CudaLaunch's
  Bytes bytes = 0;       // of the operands
  LaunchHash hash;
};
[[nodiscard]] GraphLaunchUse launch_use_of(const GraphUse& nodes, std::string_view name);

// The operands with what the tables of pointers that its kernels are given hold now, and what is
// within reach of any kernel; empty where there is nothing of the kind, so that the operands are
// all. Costs little where few allocations hold addresses.
[[nodiscard]] std::vector<CudaOperand> operands_with_tables(const Session& session,
                                                            const GraphLaunchUse& use);

}  // namespace spillway::cuda
