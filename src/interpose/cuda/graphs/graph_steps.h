// What a node of a graph does, put on a stream by itself: a graph that uses much of the budget is
// launched so, one node after the other. Layer: interpose, cuda. docs/interposer.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "interpose/cuda/call_types.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {

// With all that the program has given, as the graph has it. Thread-safe.
class GraphStep {
 public:
  GraphStep() = default;
  GraphStep(const GraphStep&) = delete;
  GraphStep& operator=(const GraphStep&) = delete;
  virtual ~GraphStep() = default;
  // Before the first is issued. False: the driver refuses that, and the graph is launched whole.
  [[nodiscard]] virtual bool prepare(const Session& session) const = 0;
  // `attributes` are those of a kernel's node.
  [[nodiscard]] virtual CuResult issue(const Session& session, CuStream stream,
                                       std::span<const CuLaunchAttribute> attributes) const = 0;
};

// nullptr where the node can only be launched with its graph.
[[nodiscard]] std::shared_ptr<const GraphStep> step_of(const Session& session,
                                                       const CuKernelNode& kernel);
// `operands` are the node's, `checked` what the driver looks at when it is told of it.
[[nodiscard]] std::shared_ptr<const GraphStep> step_of(const CuCopy3d& copy,
                                                       std::span<const CudaOperand> operands,
                                                       std::span<const CudaOperand> checked);
[[nodiscard]] std::shared_ptr<const GraphStep> step_of(const CuMemsetNode& set,
                                                       std::span<const CudaOperand> operands,
                                                       std::span<const CudaOperand> checked);
[[nodiscard]] std::shared_ptr<const GraphStep> step_of(const CuHostNode& host);

// What says how the kernel of a node runs, as far as its results depend on it. nullopt: it may do
// something that only a graph's can.
[[nodiscard]] std::optional<std::vector<CuLaunchAttribute>> attributes_of(CuGraphNode kernel);

// One of a graph's, in the order in which they run.
struct AttributedStep {
  std::shared_ptr<const GraphStep> step;
  std::vector<CuLaunchAttribute> attributes;
};
using GraphSteps = std::vector<AttributedStep>;

// A context has ended: the driver may use its handles of executable graphs and events again.
void forget_graph_handles();
// How often that has been. Whoever has made a handle destroys it only while this is the same.
[[nodiscard]] std::uint64_t graph_handles_forgotten();

}  // namespace spillway::cuda
