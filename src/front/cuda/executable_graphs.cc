// See executable_graphs.h.
#include "front/cuda/executable_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace spillway::cuda {
namespace {

struct Executables {
  std::mutex mutex;
  std::unordered_map<CuGraphExec, std::shared_ptr<ExecutableGraph>> by_handle;
};
Executables& executables() {
  static auto* const all = new Executables;  // threads of the program may run until the very end
  return *all;
}

// nullptr: a node has none.
std::shared_ptr<const GraphSteps> steps_of(const GraphUse& nodes) {
  auto steps = std::make_shared<GraphSteps>();
  for (const NodeUse& node : nodes) {
    if (!node.enabled) {
      continue;
    }
    if (node.step == nullptr || (node.kernel && !node.attributes)) {
      return nullptr;
    }
    steps->push_back({.step = node.step,
                      .attributes = node.attributes.value_or(std::vector<CuLaunchAttribute>())});
  }
  return steps;
}

}  // namespace

ExecutableGraph::ExecutableGraph(GraphUse nodes, Captures captures)
    : nodes_(std::move(nodes)),
      name_(fmt::format("a graph of {} kernels",
                        std::count_if(nodes_.begin(), nodes_.end(),
                                      [](const NodeUse& node) { return node.kernel; }))),
      captures_(std::move(captures)) {}

std::shared_ptr<const GraphLaunchUse> ExecutableGraph::launch_use() {
  const std::scoped_lock lock(mutex_);
  if (launch_use_ == nullptr) {
    launch_use_ = std::make_shared<const GraphLaunchUse>(launch_use_of(nodes_, name_));
  }
  return launch_use_;
}

std::shared_ptr<const GraphSteps> ExecutableGraph::steps() {
  const std::scoped_lock lock(mutex_);
  if (!steps_) {
    steps_ = nodes_are_known_ ? steps_of(nodes_) : nullptr;
  }
  return *steps_;
}

void ExecutableGraph::changed() {
  launch_use_.reset();
  steps_.reset();
}

void ExecutableGraph::change(CuGraphNode node, GraphUse now) {
  const std::scoped_lock lock(mutex_);
  const auto is_its = [node](const NodeUse& it) { return it.node == node || it.holder == node; };
  const auto first = std::find_if(nodes_.begin(), nodes_.end(), is_its);
  nodes_are_known_ = nodes_are_known_ && first != nodes_.end();
  bool enabled = true;
  std::optional<std::vector<CuLaunchAttribute>> attributes;
  for (auto it = first; it != nodes_.end(); ++it) {
    if (it->node == node) {
      enabled = enabled && it->enabled;
      attributes = std::move(it->attributes);
    }
  }
  for (NodeUse& it : now) {
    it.node = it.node == nullptr ? node : it.node;
    it.holder = node;
    it.enabled = enabled;
    if (it.node == node) {
      it.attributes = attributes;  // it keeps them
    }
  }
  const std::ptrdiff_t place = first - nodes_.begin();  // there it runs
  std::erase_if(nodes_, is_its);
  nodes_.insert(nodes_.begin() + place, std::make_move_iterator(now.begin()),
                std::make_move_iterator(now.end()));
  changed();
}

void ExecutableGraph::enable(CuGraphNode node, bool enabled) {
  const std::scoped_lock lock(mutex_);
  bool known = false;
  for (NodeUse& it : nodes_) {
    if (it.node == node) {
      it.enabled = enabled;
      known = true;
    }
  }
  nodes_are_known_ = nodes_are_known_ && known;
  changed();
}

std::shared_ptr<ExecutableGraph> find_executable(CuGraphExec exec) {
  const std::scoped_lock lock(executables().mutex);
  const auto found = executables().by_handle.find(exec);
  return found == executables().by_handle.end() ? nullptr : found->second;
}

std::shared_ptr<ExecutableGraph> executable_of(CuGraphExec exec) {
  const std::scoped_lock lock(executables().mutex);
  std::shared_ptr<ExecutableGraph>& graph = executables().by_handle[exec];
  if (graph == nullptr) {
    graph = std::make_shared<ExecutableGraph>(GraphUse(), Captures());
  }
  return graph;
}

void set_executable(CuGraphExec exec, std::shared_ptr<ExecutableGraph> graph) {
  {
    const std::scoped_lock lock(executables().mutex);
    if (graph != nullptr) {
      std::swap(executables().by_handle[exec], graph);
    } else if (const auto found = executables().by_handle.find(exec);
               found != executables().by_handle.end()) {
      graph = std::move(found->second);
      executables().by_handle.erase(found);
    }
  }
  if (graph != nullptr) {
    give_up(graph->take_captures());
  }
}

}  // namespace spillway::cuda
