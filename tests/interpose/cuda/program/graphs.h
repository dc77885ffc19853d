// Graphs that are made by hand, changed, and run in parts. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// Copies, memsets and kernels are added, by each of the calls that can, while their memory is
// elsewhere; then some are given other memory.
void graphs_by_hand(const Device& device);
// A graph whose nodes never run all at once, since they do not fit the budget together.
void disabled_nodes(const Device& device);
// A graph that uses three times the budget, of which each node uses little: kernels, copies from
// and to pageable memory, a function of the host between them, and a graph within it.
void large_graphs(const Device& device);
// A graph in a conditional node.
void conditional_graphs(const Device& device);

}  // namespace spillway::cuda::test
