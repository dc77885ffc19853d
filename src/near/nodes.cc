#include "near/nodes.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>

namespace spillway::near {

std::vector<int> own_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(static_cast<unsigned>(i), &set)) processors.push_back(i);
    }
  }
  if (processors.empty()) {
    processors.push_back(0);  // more processors than fit into a set, or none of our business
  }
  return processors;
}

std::vector<std::vector<int>> by_node(const std::vector<int>& processors) {
  std::vector<std::vector<int>> nodes;
  std::vector<int> left = processors;
  for (int node = 0; node < 64 && !left.empty(); ++node) {
    std::vector<int> here;
    for (const int processor : left) {
      std::error_code none;
      if (std::filesystem::exists(
              fmt::format("/sys/devices/system/node/node{}/cpu{}", node, processor), none)) {
        here.push_back(processor);
      }
    }
    if (here.empty()) continue;
    std::erase_if(left, [&](int processor) {
      return std::find(here.begin(), here.end(), processor) != here.end();
    });
    nodes.push_back(std::move(here));
  }
  if (nodes.empty() || !left.empty()) {
    return {processors};
  }
  return nodes;
}

void stay_on_node(std::uint32_t me, std::uint32_t threads) {
  const std::vector<std::vector<int>> nodes = by_node(own_processors());
  if (nodes.size() < 2) return;
  const std::vector<int>& mine = nodes[nodes.size() * me / threads];
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : mine) CPU_SET(static_cast<unsigned>(processor), &set);
  sched_setaffinity(0, sizeof set, &set);  // where it may not, it stays where it is
}

}  // namespace spillway::near
