// What launches and graphs use. Layer: front, cuda.
#pragma once

#include <cstdint>
#include <vector>

#include "front/cuda/kernel_layouts.h"
#include "front/cuda/operands.h"

namespace spillway::cuda {

// Of one launch, from its parameters as the program gives them.
void add_parameters(Operands& operands, const KernelLayout& kernel, void* const* parameters,
                    void* const* extra);
// Both sides of a copy. `from` and `to`: how they are used.
void add_copy(Operands& operands, const CuCopy2d& copy);
void add_copy(Operands& operands, const CuCopy3d& copy);
void add_memset(Operands& operands, const CuMemsetNode& set);

// What a graph copies each time that it runs, and that may hold addresses: in one piece, from the
// host or within the device.
struct CarryingCopy {
  CuGraphNode node = nullptr;  // of the graph itself: the one that holds the graph that it is in
  CuAddress to = 0;
  std::uint64_t from = 0;
  Bytes bytes = 0;
};

// Of a graph: all of its nodes, and those of graphs in it.
struct GraphUse {
  explicit GraphUse(const Session& session) : operands(session), copied(session) {}
  Operands operands;
  Operands copied;  // by nodes whose addresses the driver looks at when it is made executable
  std::vector<CarryingCopy> copies;
  std::uint32_t kernels = 0;
};
void add_graph(GraphUse& use, CuGraph graph);
void add_kernel_node(GraphUse& use, const CuKernelNode& kernel);
void add_copy_node(GraphUse& use, CuGraphNode node, const CuCopy3d& copy);

}  // namespace spillway::cuda
