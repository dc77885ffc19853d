// See graph_nodes.h.
#include "interpose/cuda/graphs/graph_nodes.h"

#include <functional>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "interpose/cuda/hooks/hook_table.h"

namespace spillway::cuda {
namespace {

struct Edges {
  std::vector<CuGraphNode> from;
  std::vector<CuGraphNode> to;
};

// `ask` is given places for so many, or none.
template <typename Ask>
std::optional<Edges> ask_for_edges(const Ask& ask) {
  std::size_t count = 0;
  if (ask(nullptr, nullptr, &count) != CuResult::kSuccess) {
    return std::nullopt;
  }
  Edges edges{.from = std::vector<CuGraphNode>(count), .to = std::vector<CuGraphNode>(count)};
  if (count > 0 && ask(edges.from.data(), edges.to.data(), &count) != CuResult::kSuccess) {
    return std::nullopt;
  }
  return edges;
}

// Drivers from before 12.3 have edges that only order.
std::optional<Edges> edges_of(CuGraph graph) {
  std::optional<Edges> edges =
      ask_for_edges([graph](CuGraphNode* from, CuGraphNode* to, std::size_t* count) {
        std::vector<CuGraphEdge> kinds(*count);
        return real().cuGraphGetEdges_v2(graph, from, to, from == nullptr ? nullptr : kinds.data(),
                                         count);
      });
  if (!edges) {
    edges = ask_for_edges([graph](CuGraphNode* from, CuGraphNode* to, std::size_t* count) {
      return real().cuGraphGetEdges(graph, from, to, count);
    });
  }
  return edges;
}

// As they were listed where nothing says otherwise.
bool put_in_order(std::vector<CuGraphNode>& nodes, const Edges& edges) {
  std::unordered_map<CuGraphNode, std::size_t> places;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    places.emplace(nodes[i], i);
  }
  std::vector<std::vector<std::size_t>> behind(nodes.size());
  std::vector<std::size_t> waits_for(nodes.size());
  for (std::size_t i = 0; i < edges.from.size(); ++i) {
    const auto from = places.find(edges.from[i]);
    const auto to = places.find(edges.to[i]);
    if (from == places.end() || to == places.end()) {
      return false;
    }
    behind[from->second].push_back(to->second);
    ++waits_for[to->second];
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> next;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (waits_for[i] == 0) {
      next.push(i);
    }
  }
  std::vector<CuGraphNode> ordered;
  ordered.reserve(nodes.size());
  while (!next.empty()) {
    const std::size_t at = next.top();
    next.pop();
    ordered.push_back(nodes[at]);
    for (const std::size_t it : behind[at]) {
      if (--waits_for[it] == 0) {
        next.push(it);
      }
    }
  }
  if (ordered.size() != nodes.size()) {
    return false;
  }
  nodes = std::move(ordered);
  return true;
}

}  // namespace

Nodes nodes_of(CuGraph graph, std::vector<CuGraphNode>& nodes) {
  std::size_t count = 0;
  nodes.clear();
  if (real().cuGraphGetNodes(graph, nullptr, &count) != CuResult::kSuccess) {
    return Nodes::kUnknown;
  }
  nodes.resize(count);
  if (count > 0 && real().cuGraphGetNodes(graph, nodes.data(), &count) != CuResult::kSuccess) {
    nodes.clear();
    return Nodes::kUnknown;
  }
  const std::optional<Edges> edges = edges_of(graph);
  return edges && put_in_order(nodes, *edges) ? Nodes::kInOrder : Nodes::kInNoOrder;
}

}  // namespace spillway::cuda
