// What launches and graphs use. Layer: front, cuda.
#pragma once

#include <cstdint>

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

// Of a graph: all of its nodes, and those of graphs in it. `copied`: of those nodes whose addresses
// the driver looks at when the graph is made executable.
void add_graph(Operands& operands, Operands& copied, CuGraph graph, std::uint32_t& kernels);

}  // namespace spillway::cuda
