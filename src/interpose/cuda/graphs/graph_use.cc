// See graph_use.h.
#include "interpose/cuda/graphs/graph_use.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "interpose/cuda/graphs/graph_nodes.h"
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/operands/launch_operands.h"
#include "interpose/cuda/operands/pointer_tables.h"

namespace spillway::cuda {
namespace {

std::vector<CudaOperand> list_of(const Operands& operands) {
  return {operands.all().begin(), operands.all().end()};
}

// Of a node that is no kernel.
NodeUse use_of_bytes(const Session& session, const Operands& bytes) {
  NodeUse use;
  use.checked = list_of(bytes);
  Operands whole(session);
  for (const CudaOperand& operand : use.checked) {
    whole.add_pointer(operand.address);
  }
  use.operands = list_of(whole);
  return use;
}

// Of a node that may be or hold anything.
NodeUse use_of_everything(const Session& session) {
  static std::atomic<bool> told{false};
  say_once(told,
           "a graph has nodes of which Spillway cannot tell what they use: all memory is "
           "made resident for it");
  NodeUse use;
  use.reaches = true;
  Operands all(session);
  all.exposes_what_it_finds();
  all.add_everything();
  use.operands = list_of(all);
  use.checked = use.operands;
  return use;
}

// Where it is in one piece and small enough to be looked at. Whose memory its source is is looked
// at when it runs: the driver may call a device's address the host's, and the other way round.
std::optional<CarryingCopy> carrying_copy(const CuCopy3d& copy) {
  if (copy.from.type == CuMemoryType::kArray || copy.to.type == CuMemoryType::kArray ||
      copy.width_bytes == 0 || copy.height != 1 || copy.depth != 1 ||
      copy.width_bytes > kMostScannedBytes) {
    return std::nullopt;
  }
  return CarryingCopy{.to = first_byte(copy, copy.to),
                      .from = first_byte(copy, copy.from),
                      .bytes = copy.width_bytes};
}

struct Conditional {
  CuGraph graph = nullptr;  // that it is in
  CuGraphNode node = nullptr;
  std::vector<CuGraph> bodies;
};
struct Conditionals {
  Mutex mutex;
  std::vector<Conditional> all SPILLWAY_GUARDED_BY(mutex);  // few
};
Conditionals& conditionals() {
  static auto* const all = new Conditionals;  // threads of the program may run until the very end
  return *all;
}

std::optional<std::vector<CuGraph>> bodies_of(CuGraphNode node) {
  const MutexLock lock(conditionals().mutex);
  for (const Conditional& it : conditionals().all) {
    if (it.node == node) {
      return it.bodies;
    }
  }
  return std::nullopt;
}

// With what is in their bodies.
template <typename Which>
void forget_conditionals(const Which& which) {
  std::vector<CuGraph> gone;
  {
    const MutexLock lock(conditionals().mutex);
    std::erase_if(conditionals().all, [&](const Conditional& it) {
      if (which(it)) {
        gone.insert(gone.end(), it.bodies.begin(), it.bodies.end());
        return true;
      }
      return false;
    });
  }
  for (const CuGraph body : gone) {
    forget_conditionals_of(body);
  }
}

void append(GraphUse& all, GraphUse more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Only the device knows whether they run.
GraphUse use_of_bodies(const Session& session, const std::vector<CuGraph>& bodies) {
  GraphUse use(1);
  for (const CuGraph body : bodies) {
    append(use, use_of(session, body));
  }
  for (NodeUse& it : use) {
    it.step = nullptr;
  }
  return use;
}

// nullopt: nobody can tell.
std::optional<GraphUse> use_of_node(const Session& session, CuGraphNode node) {
  CuNodeParams it{};
  if (real().cuGraphNodeGetType(node, &it.type) != CuResult::kSuccess) {
    return std::nullopt;
  }
  CuResult result = CuResult::kSuccess;
  switch (it.type) {
    case CuNodeType::kKernel:
      result = real().cuGraphKernelNodeGetParams_v2(node, &it.kernel);
      break;
    case CuNodeType::kCopy:
      result = real().cuGraphMemcpyNodeGetParams(node, &it.copy.copy);
      break;
    case CuNodeType::kMemset:
      result = real().cuGraphMemsetNodeGetParams(node, &it.set);
      break;
    case CuNodeType::kStreamOperations:
      result = real().cuGraphBatchMemOpNodeGetParams(node, &it.operations);
      break;
    case CuNodeType::kGraph:
      result = real().cuGraphChildGraphNodeGetGraph(node, &it.child);
      break;
    case CuNodeType::kHost:
      result = real().cuGraphHostNodeGetParams(node, &it.host);
      break;
    case CuNodeType::kConditional: {
      const std::optional<std::vector<CuGraph>> bodies = bodies_of(node);
      return bodies ? std::optional(use_of_bodies(session, *bodies)) : std::nullopt;
    }
    default:
      break;
  }
  if (result != CuResult::kSuccess) {
    return std::nullopt;
  }
  GraphUse use = use_of(session, it);
  if (it.type == CuNodeType::kKernel) {
    use.front().attributes = attributes_of(node);
  }
  return use;
}

}  // namespace

NodeUse use_of(const Session& session, const CuKernelNode& kernel) {
  const auto function = kernel.launch.function != nullptr
                            ? kernel.launch.function
                            : reinterpret_cast<CuFunction>(kernel.kernel);
  const KernelLayout& layout = kernel_layout(function);
  Operands operands(session);
  add_parameters(operands, layout, layout.addresses, kernel.launch.parameters, kernel.launch.extra);
  NodeUse use;
  use.kernel = true;
  use.reaches = layout.addresses.reaches;
  use.operands = list_of(operands);
  use.step = step_of(session, kernel);
  return use;
}

NodeUse use_of(const Session& session, const CuCopy3d& copy) {
  Operands bytes(session);
  add_copy(bytes, copy);
  NodeUse use = use_of_bytes(session, bytes);
  if (const std::optional<CarryingCopy> carrying = carrying_copy(copy)) {
    use.copies.push_back(*carrying);
  }
  use.step = step_of(copy, use.operands, use.checked);
  return use;
}

NodeUse use_of(const Session& session, const CuMemsetNode& set) {
  Operands bytes(session);
  add_memset(bytes, set);
  NodeUse use = use_of_bytes(session, bytes);
  use.step = step_of(set, use.operands, use.checked);
  return use;
}

NodeUse use_of(const Session& session, const CuStreamOperationsNode& operations) {
  Operands bytes(session);
  std::vector<WrittenValue> values;
  for (unsigned i = 0; i < operations.count; ++i) {
    const CuStreamOperation& operation = operations.operations[i];
    add_stream_operation(bytes, operation);
    if (operation.type == CuStreamOperationType::kWaitValue32 ||
        operation.type == CuStreamOperationType::kWaitValue64) {
      note_waits_for_values();
    }
    if (operation.type == CuStreamOperationType::kWriteValue64) {
      values.push_back({.to = operation.address, .word = operation.value});
    }
  }
  NodeUse use = use_of_bytes(session, bytes);
  use.values = std::move(values);
  return use;
}

NodeUse use_of(const Session& /*session*/, const CuHostNode& host) {
  NodeUse use;
  use.step = step_of(host);
  return use;
}

GraphUse use_of(const Session& session, const CuNodeParams& parameters) {
  GraphUse use;
  switch (parameters.type) {
    case CuNodeType::kKernel:
      use.push_back(use_of(session, parameters.kernel));
      break;
    case CuNodeType::kCopy:
      use.push_back(use_of(session, parameters.copy.copy));
      break;
    case CuNodeType::kMemset:
      use.push_back(use_of(session, parameters.set));
      break;
    case CuNodeType::kStreamOperations:
      use.push_back(use_of(session, parameters.operations));
      break;
    case CuNodeType::kGraph:
      return use_of(session, parameters.child);
    case CuNodeType::kHost:
      use.push_back(use_of(session, parameters.host));
      break;
    case CuNodeType::kEmpty:
      break;
    case CuNodeType::kConditional:  // its graphs are still to be filled
    case CuNodeType::kWaitEvent:
    case CuNodeType::kRecordEvent:
    case CuNodeType::kSignalSemaphore:
    case CuNodeType::kWaitSemaphore:
    case CuNodeType::kMemAlloc:
    case CuNodeType::kMemFree:
      use.emplace_back();
      break;
    default:
      use.push_back(use_of_everything(session));
      break;
  }
  return use;
}

GraphUse use_of(const Session& session, CuGraph graph) {
  GraphUse use;
  std::vector<CuGraphNode> nodes;
  switch (nodes_of(graph, nodes)) {
    case Nodes::kInOrder:
      break;
    case Nodes::kInNoOrder:
      use.emplace_back();
      break;
    case Nodes::kUnknown:
      use.push_back(use_of_everything(session));
      break;
  }
  bool told_everything = false;
  for (const CuGraphNode node : nodes) {
    std::optional<GraphUse> more = use_of_node(session, node);
    if (!more) {
      more.emplace();
      if (!std::exchange(told_everything, true)) {
        more->push_back(use_of_everything(session));
      }
    }
    for (NodeUse& it : *more) {
      it.node = it.node == nullptr ? node : it.node;
      it.holder = node;
    }
    append(use, std::move(*more));
  }
  return use;
}

std::vector<CudaOperand> checked_of(const GraphUse& use) {
  std::vector<CudaOperand> checked;
  for (const NodeUse& node : use) {
    checked.insert(checked.end(), node.checked.begin(), node.checked.end());
  }
  return checked;
}

void keep_for_graphs(const Session& session, const GraphUse& use) {
  for (const NodeUse& node : use) {
    for (const CudaOperand& operand : node.operands) {
      session.segments->keep_whole(operand.address);
    }
  }
}

void note_conditional(CuGraph graph, CuGraphNode node, const CuConditionalNode& conditional) {
  forget_conditional(node);
  Conditional made{.graph = graph, .node = node, .bodies = {}};
  made.bodies.assign(conditional.graphs, conditional.graphs + conditional.count);
  const MutexLock lock(conditionals().mutex);
  conditionals().all.push_back(std::move(made));
}

void forget_conditional(CuGraphNode node) {
  forget_conditionals([node](const Conditional& it) { return it.node == node; });
}

void forget_conditionals_of(CuGraph graph) {
  forget_conditionals([graph](const Conditional& it) { return it.graph == graph; });
}

}  // namespace spillway::cuda
