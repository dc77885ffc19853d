// What the nodes of a graph use, as the driver or a program tells of them. Layer: interpose, cuda.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "interpose/cuda/call_types.h"
#include "interpose/cuda/graphs/graph_steps.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {

// What a graph copies each time that it runs, and that may hold addresses: in one piece, from the
// host or within the device.
struct CarryingCopy {
  CuAddress to = 0;
  std::uint64_t from = 0;
  Bytes bytes = 0;
};

// A word of 64 bits that it writes each time.
struct WrittenValue {
  CuAddress to = 0;
  std::uint64_t word = 0;
};

// `node` is nullptr where the caller has no handle yet. `holder`: of the graph itself, the one that
// holds the graph that this node is in; the node where it is in none.
struct NodeUse {
  CuGraphNode node = nullptr;
  CuGraphNode holder = nullptr;
  bool enabled = true;
  bool kernel = false;
  bool reaches = false;  // CudaLaunch's
  // Whole allocations: who can launch may use all of them.
  std::vector<CudaOperand> operands;
  // Bytes at which the driver looks when it is told of the node, or makes it executable.
  std::vector<CudaOperand> checked;
  std::vector<CarryingCopy> copies;
  std::vector<WrittenValue> values;
  // What it does, by itself; nullptr where only its graph can be launched.
  std::shared_ptr<const GraphStep> step;
  // Of a kernel's node; nullopt: nobody has told, or only a graph's kernel can be like that.
  std::optional<std::vector<CuLaunchAttribute>> attributes;
};

// In an order in which the nodes may run, as far as each has a step.
using GraphUse = std::vector<NodeUse>;

[[nodiscard]] NodeUse use_of(const Session& session, const CuKernelNode& kernel);
[[nodiscard]] NodeUse use_of(const Session& session, const CuCopy3d& copy);
[[nodiscard]] NodeUse use_of(const Session& session, const CuMemsetNode& set);
[[nodiscard]] NodeUse use_of(const Session& session, const CuStreamOperationsNode& operations);
[[nodiscard]] NodeUse use_of(const Session& session, const CuHostNode& host);
// Of any node: those of a graph in it as well. Where nobody can tell, everything.
[[nodiscard]] GraphUse use_of(const Session& session, const CuNodeParams& parameters);
// All nodes of a graph, and of those in it.
[[nodiscard]] GraphUse use_of(const Session& session, CuGraph graph);

[[nodiscard]] std::vector<CudaOperand> checked_of(const GraphUse& use);

// A graph uses this each time that it runs, whatever becomes of the tensors that were there when it
// was captured.
void keep_for_graphs(const Session& session, const GraphUse& use);

// The driver does not tell later which graphs a conditional node has: they are kept until it, or
// the graph that it is in, is destroyed.
void note_conditional(CuGraph graph, CuGraphNode node, const CuConditionalNode& conditional);
void forget_conditional(CuGraphNode node);
void forget_conditionals_of(CuGraph graph);

}  // namespace spillway::cuda
