// Graphs that have been made executable, with what each of their nodes uses: one may be given other
// parameters, or disabled. Layer: interpose, cuda. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "interpose/cuda/captures.h"
#include "interpose/cuda/graphs/graph_launch_order.h"
#include "interpose/cuda/graphs/graph_launch_use.h"
#include "interpose/cuda/graphs/graph_steps.h"
#include "interpose/cuda/graphs/graph_use.h"

namespace spillway::cuda {

class ExecutableGraph {
 public:
  // `order` is that of all launches by its handle.
  ExecutableGraph(GraphUse nodes, Captures captures, std::shared_ptr<GraphLaunchOrder> order);
  // The name of a launch of it, for people.
  [[nodiscard]] const std::string& name() const { return name_; }
  // Made when it is first asked for after a change: programs change many nodes at once.
  [[nodiscard]] std::shared_ptr<const GraphLaunchUse> launch_use();
  // All that a launch does, to be issued one after the other; nullptr where something of it only
  // the graph can do, or nobody knows any more which node is which. Made as above.
  [[nodiscard]] std::shared_ptr<const GraphSteps> steps();
  // Every launch of it.
  [[nodiscard]] const std::shared_ptr<GraphLaunchOrder>& order() const { return order_; }
  // From now on it has no steps.
  void stay_whole();
  // Whether a node was ever disabled: whether it still is where the graph is updated as a whole
  // only the driver knows.
  [[nodiscard]] bool had_disabled();
  // The node, and what is in it, uses this from now on. One that was disabled stays so.
  void change(CuGraphNode node, GraphUse now);
  // A node that nobody knows here counts in any case.
  void enable(CuGraphNode node, bool enabled);
  [[nodiscard]] Captures take_captures() {
    const MutexLock lock(mutex_);
    return std::move(captures_);
  }

 private:
  [[nodiscard]] const std::shared_ptr<const GraphLaunchUse>& made_use() SPILLWAY_REQUIRES(mutex_);
  void changed() SPILLWAY_REQUIRES(mutex_);

  Mutex mutex_;
  GraphUse nodes_ SPILLWAY_GUARDED_BY(mutex_);
  // By the handles under which the program changes them.
  bool nodes_are_known_ SPILLWAY_GUARDED_BY(mutex_) = true;
  // nullptr: to be made
  std::shared_ptr<const GraphLaunchUse> launch_use_ SPILLWAY_GUARDED_BY(mutex_);
  // nullopt: to be made
  std::optional<std::shared_ptr<const GraphSteps>> steps_ SPILLWAY_GUARDED_BY(mutex_);
  bool had_disabled_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::string name_ SPILLWAY_GUARDED_BY(mutex_);
  Captures captures_ SPILLWAY_GUARDED_BY(mutex_);
  const std::shared_ptr<GraphLaunchOrder> order_;
};

// nullptr if nobody knows it.
[[nodiscard]] std::shared_ptr<ExecutableGraph> find_executable(CuGraphExec exec);
// The same, made now if there is none: it was made executable before there was anything to use.
[[nodiscard]] std::shared_ptr<ExecutableGraph> executable_of(CuGraphExec exec);
// The program destroys it. The driver does at once, or, where steps of it are under way, in a later
// call of the next function.
CuResult destroy_executable(CuGraphExec exec);
// The driver destroys those that the program has destroyed, as far as their steps have ended.
void destroy_ended_executables();
// From now on.
void set_executable(CuGraphExec exec, std::shared_ptr<ExecutableGraph> graph);

}  // namespace spillway::cuda
