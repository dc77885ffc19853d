// The nodes of a graph in an order in which they may run. Layer: interpose, cuda.
#pragma once

#include <vector>

#include "interpose/cuda/call_types.h"

namespace spillway::cuda {

enum class Nodes {
  kInOrder,    // each behind those that it depends on
  kInNoOrder,  // the driver does not tell of what depends on what
  kUnknown,    // it does not tell of the nodes, and there are none
};
// Not those of graphs that are in it.
[[nodiscard]] Nodes nodes_of(CuGraph graph, std::vector<CuGraphNode>& nodes);

}  // namespace spillway::cuda
