// Which processors this process may use, and which of them are near each other. Layer: near.
#pragma once

#include <cstdint>
#include <vector>

namespace spillway::near {

[[nodiscard]] std::vector<int> own_processors();

// The processors of each node of memory that has any of `processors`; a single group where the
// system does not say.
[[nodiscard]] std::vector<std::vector<int>> by_node(const std::vector<int>& processors);

// Of `threads` threads, which are spread evenly over the nodes, the calling one is number `me`: it
// stays on the processors of its node. Does nothing where there is one node.
void stay_on_node(std::uint32_t me, std::uint32_t threads);

}  // namespace spillway::near
