// Graphs that have been made executable, with what each of their nodes uses: one may be given other
// parameters, or disabled. Layer: front, cuda. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "front/cuda/captures.h"
#include "front/cuda/graph_launch_use.h"
#include "front/cuda/graph_use.h"

namespace spillway::cuda {

class ExecutableGraph {
 public:
  ExecutableGraph(GraphUse nodes, Captures captures);
  // The name of a launch of it, for people.
  [[nodiscard]] const std::string& name() const { return name_; }
  // Made when it is first asked for after a change: programs change many nodes at once.
  [[nodiscard]] std::shared_ptr<const GraphLaunchUse> launch_use();
  // The node, and what is in it, uses this from now on. One that was disabled stays so.
  void change(CuGraphNode node, GraphUse now);
  // A node that nobody knows here counts in any case.
  void enable(CuGraphNode node, bool enabled);
  [[nodiscard]] Captures take_captures() { return std::move(captures_); }

 private:
  std::mutex mutex_;
  GraphUse nodes_;
  std::shared_ptr<const GraphLaunchUse> launch_use_;  // nullptr: to be made
  std::string name_;
  Captures captures_;
};

// nullptr if nobody knows it.
[[nodiscard]] std::shared_ptr<ExecutableGraph> find_executable(CuGraphExec exec);
// The same, made now if there is none: it was made executable before there was anything to use.
[[nodiscard]] std::shared_ptr<ExecutableGraph> executable_of(CuGraphExec exec);
// From now on; nullptr: it is no more.
void set_executable(CuGraphExec exec, std::shared_ptr<ExecutableGraph> graph);

}  // namespace spillway::cuda
