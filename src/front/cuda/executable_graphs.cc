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

void ExecutableGraph::change(CuGraphNode node, GraphUse now) {
  const std::scoped_lock lock(mutex_);
  bool enabled = true;
  std::erase_if(nodes_, [&](const NodeUse& it) {
    enabled = enabled && (it.node != node || it.enabled);
    return it.node == node || it.holder == node;
  });
  for (NodeUse& it : now) {
    it.node = it.node == nullptr ? node : it.node;
    it.holder = node;
    it.enabled = enabled;
  }
  nodes_.insert(nodes_.end(), std::make_move_iterator(now.begin()),
                std::make_move_iterator(now.end()));
  launch_use_.reset();
}

void ExecutableGraph::enable(CuGraphNode node, bool enabled) {
  const std::scoped_lock lock(mutex_);
  for (NodeUse& it : nodes_) {
    if (it.node == node) {
      it.enabled = enabled;
      launch_use_.reset();
    }
  }
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
