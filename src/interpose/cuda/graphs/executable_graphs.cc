// See executable_graphs.h.
#include "interpose/cuda/graphs/executable_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "interpose/cuda/hooks/hook_table.h"

namespace spillway::cuda {
namespace {

struct Destroyed {
  CuGraphExec exec = nullptr;
  std::shared_ptr<GraphLaunchOrder> order;
};
struct Executables {
  Mutex mutex;
  std::unordered_map<CuGraphExec, std::shared_ptr<ExecutableGraph>> by_handle
      SPILLWAY_GUARDED_BY(mutex);
  // By the program, and the driver has not been told.
  std::vector<Destroyed> destroyed SPILLWAY_GUARDED_BY(mutex);
  std::atomic<bool> some_destroyed{false};
};
Executables& executables() {
  static auto* const all = new Executables;  // threads of the program may run until the very end
  return *all;
}

Bytes bytes_of(const NodeUse& node) {
  Bytes bytes = 0;
  for (const CudaOperand& operand : node.operands) {
    bytes += operand.bytes;
  }
  return bytes;
}

// nullptr: a node has none, or they would gain nothing: one of them uses nearly as much as all.
std::shared_ptr<const GraphSteps> steps_of(const GraphUse& nodes, Bytes all_bytes) {
  auto steps = std::make_shared<GraphSteps>();
  for (const NodeUse& node : nodes) {
    if (!node.enabled) {
      continue;
    }
    if (node.step == nullptr || (node.kernel && !node.attributes) ||
        bytes_of(node) > all_bytes / 4 * 3) {
      return nullptr;
    }
    steps->push_back({.step = node.step,
                      .attributes = node.attributes.value_or(std::vector<CuLaunchAttribute>())});
  }
  return steps;
}

}  // namespace

ExecutableGraph::ExecutableGraph(GraphUse nodes, Captures captures,
                                 std::shared_ptr<GraphLaunchOrder> order)
    : nodes_(std::move(nodes)),
      name_(fmt::format("a graph of {} kernels",
                        std::count_if(nodes_.begin(), nodes_.end(),
                                      [](const NodeUse& node) { return node.kernel; }))),
      captures_(std::move(captures)),
      order_(std::move(order)) {}

const std::shared_ptr<const GraphLaunchUse>& ExecutableGraph::made_use() {
  if (launch_use_ == nullptr) {
    launch_use_ = std::make_shared<const GraphLaunchUse>(launch_use_of(nodes_, name_));
  }
  return launch_use_;
}

std::shared_ptr<const GraphLaunchUse> ExecutableGraph::launch_use() {
  const MutexLock lock(mutex_);
  return made_use();
}

std::shared_ptr<const GraphSteps> ExecutableGraph::steps() {
  const MutexLock lock(mutex_);
  if (!steps_) {
    steps_ = nodes_are_known_ ? steps_of(nodes_, made_use()->bytes) : nullptr;
  }
  return *steps_;
}

void ExecutableGraph::stay_whole() {
  const MutexLock lock(mutex_);
  nodes_are_known_ = false;
  changed();
}

bool ExecutableGraph::had_disabled() {
  const MutexLock lock(mutex_);
  return had_disabled_;
}

void ExecutableGraph::changed() {
  launch_use_.reset();
  steps_.reset();
}

void ExecutableGraph::change(CuGraphNode node, GraphUse now) {
  const MutexLock lock(mutex_);
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
  // Which of the nodes of another graph within it are disabled then only the driver knows.
  nodes_are_known_ = nodes_are_known_ && std::none_of(first, nodes_.end(), [&](const NodeUse& it) {
                       return it.holder == node && it.node != node && !it.enabled;
                     });
  const std::ptrdiff_t place = first - nodes_.begin();  // there it runs
  std::erase_if(nodes_, is_its);
  nodes_.insert(nodes_.begin() + place, std::make_move_iterator(now.begin()),
                std::make_move_iterator(now.end()));
  changed();
}

void ExecutableGraph::enable(CuGraphNode node, bool enabled) {
  const MutexLock lock(mutex_);
  bool known = false;
  had_disabled_ = had_disabled_ || !enabled;
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
  const MutexLock lock(executables().mutex);
  const auto found = executables().by_handle.find(exec);
  return found == executables().by_handle.end() ? nullptr : found->second;
}

std::shared_ptr<ExecutableGraph> executable_of(CuGraphExec exec) {
  const MutexLock lock(executables().mutex);
  std::shared_ptr<ExecutableGraph>& graph = executables().by_handle[exec];
  if (graph == nullptr) {
    graph = std::make_shared<ExecutableGraph>(GraphUse(), Captures(),
                                              std::make_shared<GraphLaunchOrder>());
    graph->stay_whole();
  }
  return graph;
}

void set_executable(CuGraphExec exec, std::shared_ptr<ExecutableGraph> graph) {
  {
    const MutexLock lock(executables().mutex);
    std::swap(executables().by_handle[exec], graph);
  }
  if (graph != nullptr) {
    give_up(graph->take_captures());
  }
}

namespace {

std::vector<CuGraphExec> take_ended() {
  const MutexLock lock(executables().mutex);
  std::vector<CuGraphExec> ended;
  std::erase_if(executables().destroyed, [&](const Destroyed& it) {
    const bool has_ended = !it.order->steps_under_way();
    if (has_ended) {
      ended.push_back(it.exec);
    }
    return has_ended;
  });
  executables().some_destroyed = !executables().destroyed.empty();
  return ended;
}

}  // namespace

void destroy_ended_executables() {
  if (executables().some_destroyed.load(std::memory_order_relaxed)) {
    for (const CuGraphExec exec : take_ended()) {
      (void)real().cuGraphExecDestroy(exec);
    }
  }
}

CuResult destroy_executable(CuGraphExec exec) {
  destroy_ended_executables();
  std::shared_ptr<ExecutableGraph> graph;
  {
    const MutexLock lock(executables().mutex);
    if (const auto found = executables().by_handle.find(exec);
        found != executables().by_handle.end()) {
      graph = std::move(found->second);
      executables().by_handle.erase(found);
    }
  }
  if (graph == nullptr) {
    return real().cuGraphExecDestroy(exec);
  }
  give_up(graph->take_captures());
  if (!graph->order()->steps_under_way()) {
    return real().cuGraphExecDestroy(exec);
  }
  const MutexLock lock(executables().mutex);
  executables().destroyed.push_back({.exec = exec, .order = graph->order()});
  executables().some_destroyed = true;
  return CuResult::kSuccess;
}

}  // namespace spillway::cuda
