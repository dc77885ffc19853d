// Graphs that a program makes by hand, and what it changes of them. A node runs in the order in
// which it was added, which programs of tests keep to. Fake driver.
#include <algorithm>
#include <utility>

#include "world.h"

namespace fake_cuda {
namespace {

std::uint64_t address_of(const CuCopy3d::Side& side) {
  return side.x_bytes + (side.type == CuMemoryType::kHost
                             ? reinterpret_cast<std::uint64_t>(side.host)
                             : side.device);
}

// As a copy that is put on a stream (docs/gpu.md section 5), unless the configuration says that
// nobody looks yet.
CuResult checked(const World& w, const Op& op) {
  const bool to_device = op.kind != OpKind::kCopyOut;
  const bool from_device = op.kind == OpKind::kCopyOut || op.kind == OpKind::kCopyWithin;
  const bool fine = (!to_device || w.memory->problem({op.to, op.bytes, true}).empty()) &&
                    (!from_device || w.memory->problem({op.from, op.bytes, false}).empty());
  return fine || w.config.nodes_unchecked != 0 ? CuResult::kSuccess : CuResult::kInvalidValue;
}

// In one piece.
CuResult copy_op(const World& w, const CuCopy3d& copy, Op* op) {
  if (copy.height != 1 || copy.depth != 1) {
    return CuResult::kNotSupported;
  }
  const bool in = copy.from.type == CuMemoryType::kHost;
  const bool out = copy.to.type == CuMemoryType::kHost;
  if (in && out) {
    return CuResult::kNotSupported;
  }
  *op = Op{.kind = in ? OpKind::kCopyIn : out ? OpKind::kCopyOut : OpKind::kCopyWithin};
  op->to = address_of(copy.to);
  op->from = address_of(copy.from);
  op->bytes = copy.width_bytes;
  op->host_pinned = (in || out) && w.host->pinned(in ? op->from : op->to, op->bytes);
  return checked(w, *op);
}

// Bytes in one piece.
CuResult set_op(const World& w, const CuMemsetNode& set, Op* op) {
  if (set.height != 1 || set.element_bytes != 1) {
    return CuResult::kNotSupported;
  }
  *op = Op{.kind = OpKind::kSet};
  op->to = set.to;
  op->bytes = set.width;
  op->byte = static_cast<unsigned char>(set.value);
  return checked(w, *op);
}

CuResult kernel_node_op(World& w, const Caller& caller, const CuKernelNode& kernel, Op* op) {
  const CuKernelNodeV1& it = kernel.launch;
  const CuLaunchConfig config{.grid_x = it.grid_x,
                              .grid_y = it.grid_y,
                              .grid_z = it.grid_z,
                              .block_x = it.block_x,
                              .block_y = it.block_y,
                              .block_z = it.block_z,
                              .shared_bytes = it.shared_bytes,
                              .stream = nullptr,
                              .attributes = nullptr,
                              .attribute_count = 0};
  return kernel_op(w, caller, it.function, config, it.parameters, it.extra, op);
}

CuResult host_op(const CuHostNode& host, Op* op) {
  *op = Op{.kind = OpKind::kHostFunction};
  op->function = host.function;
  op->argument = host.argument;
  return CuResult::kSuccess;
}

CuResult graph_op(World& w, const Caller& caller, CuGraph child, Op* op) {
  std::shared_ptr<Graph> graph;
  const CuResult result = find_graph(w, caller, child, &graph);
  if (result == CuResult::kSuccess) {
    *op = Op{.kind = OpKind::kGraph};
    op->graph = clone(*graph);
  }
  return result;
}

CuResult any_op(World& w, const Caller& caller, CuNodeParams& parameters, Op* op) {
  switch (parameters.type) {
    case CuNodeType::kKernel:
      return kernel_node_op(w, caller, parameters.kernel, op);
    case CuNodeType::kCopy:
      return copy_op(w, parameters.copy.copy, op);
    case CuNodeType::kMemset:
      return set_op(w, parameters.set, op);
    case CuNodeType::kHost:
      return host_op(parameters.host, op);
    case CuNodeType::kGraph:
      return graph_op(w, caller, parameters.child, op);
    case CuNodeType::kConditional: {
      if (parameters.conditional.count != 1) {
        return CuResult::kNotSupported;
      }
      *op = Op{.kind = OpKind::kGraph};
      op->conditional = true;
      op->graph = std::make_shared<Graph>();
      // The driver's own, for as long as the node.
      static std::deque<CuGraph> bodies;
      bodies.push_back(w.new_handle<CuGraph>());
      w.graphs.emplace(bodies.back(), op->graph);
      parameters.conditional.graphs = &bodies.back();
      return CuResult::kSuccess;
    }
    default:
      return CuResult::kNotSupported;
  }
}

CuResult add(World& w, const Caller& caller, CuGraphNode* node, CuGraph handle, Op op) {
  std::shared_ptr<Graph> graph;
  const CuResult result = find_graph(w, caller, handle, &graph);
  if (result == CuResult::kSuccess) {
    graph->ops.push_back(std::move(op));
    *node = node_of(graph->ops.back());
  }
  return result;
}

Op* find(Graph& graph, CuGraphNode node) {
  for (Op& op : graph.ops) {
    if (op.node == node) {
      return &op;
    }
    if (op.graph != nullptr) {
      if (Op* const inner = find(*op.graph, node)) {
        return inner;
      }
    }
  }
  return nullptr;
}

// `make` makes an operation, which becomes a node's own; it stays disabled if it was.
void become(Op& old, Op op) {
  op.node = old.node;
  op.enabled = old.enabled;
  old = std::move(op);
}

template <typename Make>
CuResult change(const char* name, CuGraphExec exec, CuGraphNode node, const Make& make) {
  return call(name, Needs::kContext, text("{}, {}", shown(exec), shown(node)),
              [&](World& w, Caller& caller) {
                const auto found = w.executables.find(exec);
                Op* const old = found == w.executables.end() ? nullptr : find(*found->second, node);
                if (old == nullptr) {
                  return CuResult::kInvalidValue;
                }
                Op op;
                const CuResult result = make(w, caller, &op);
                if (result == CuResult::kSuccess) {
                  become(*old, std::move(op));
                }
                return result;
              });
}

template <typename Make>
CuResult set(const char* name, CuGraphNode node, const Make& make) {
  return call(name, Needs::kContext, text("{}", shown(node)), [&](World& w, Caller& caller) {
    Op op;
    const CuResult result = make(w, caller, &op);
    if (result == CuResult::kSuccess) {
      become(op_of(node), std::move(op));
    }
    return result;
  });
}

template <typename Make>
CuResult add(const char* name, CuGraphNode* node, CuGraph graph, const Make& make) {
  return call(name, Needs::kContext, text("{}", shown(graph)), [&](World& w, Caller& caller) {
    Op op;
    const CuResult result = make(w, caller, &op);
    return result == CuResult::kSuccess ? add(w, caller, node, graph, std::move(op)) : result;
  });
}

}  // namespace

CuResult cuGraphCreate(CuGraph* graph, unsigned flags) {
  return call("cuGraphCreate", Needs::kContext, text("{}", flags), [&](World& w, Caller&) {
    *graph = w.new_handle<CuGraph>();
    w.graphs.emplace(*graph, std::make_shared<Graph>());
    return CuResult::kSuccess;
  });
}

CuResult cuGraphClone(CuGraph* made, CuGraph handle) {
  return call("cuGraphClone", Needs::kContext, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Graph> graph;
                const CuResult result = find_graph(w, caller, handle, &graph);
                if (result == CuResult::kSuccess) {
                  *made = w.new_handle<CuGraph>();
                  w.graphs.emplace(*made, clone(*graph));
                }
                return result;
              });
}

// It is still known by the nodes that it was made of first.
CuResult cuGraphExecUpdate_v2(CuGraphExec exec, CuGraph handle, void* /*told*/) {
  return call("cuGraphExecUpdate_v2", Needs::kContext, text("{}, {}", shown(exec), shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Graph> graph;
                const CuResult result = find_graph(w, caller, handle, &graph);
                const auto old = w.executables.find(exec);
                if (result != CuResult::kSuccess || old == w.executables.end() ||
                    old->second->ops.size() != graph->ops.size()) {
                  return CuResult::kInvalidValue;
                }
                std::shared_ptr<Graph> now = executable(*graph);
                for (std::size_t i = 0; i < now->ops.size(); ++i) {
                  now->ops[i].node = old->second->ops[i].node;
                }
                old->second = std::move(now);
                return CuResult::kSuccess;
              });
}

CuResult cuGraphAddKernelNode_v2(CuGraphNode* node, CuGraph graph, const CuGraphNode*, std::size_t,
                                 const CuKernelNode* kernel) {
  return add("cuGraphAddKernelNode_v2", node, graph, [&](World& w, Caller& caller, Op* op) {
    return kernel_node_op(w, caller, *kernel, op);
  });
}

CuResult cuGraphAddMemcpyNode(CuGraphNode* node, CuGraph graph, const CuGraphNode*, std::size_t,
                              const CuCopy3d* copy, CuContext) {
  return add("cuGraphAddMemcpyNode", node, graph,
             [&](World& w, Caller&, Op* op) { return copy_op(w, *copy, op); });
}

CuResult cuGraphAddMemsetNode(CuGraphNode* node, CuGraph graph, const CuGraphNode*, std::size_t,
                              const CuMemsetNode* it, CuContext) {
  return add("cuGraphAddMemsetNode", node, graph,
             [&](World& w, Caller&, Op* op) { return set_op(w, *it, op); });
}

CuResult cuGraphAddHostNode(CuGraphNode* node, CuGraph graph, const CuGraphNode*, std::size_t,
                            const CuHostNode* it) {
  return add("cuGraphAddHostNode", node, graph,
             [&](World&, Caller&, Op* op) { return host_op(*it, op); });
}

CuResult cuGraphAddChildGraphNode(CuGraphNode* node, CuGraph graph, const CuGraphNode*, std::size_t,
                                  CuGraph child) {
  return add("cuGraphAddChildGraphNode", node, graph,
             [&](World& w, Caller& caller, Op* op) { return graph_op(w, caller, child, op); });
}

CuResult cuGraphAddNode_v2(CuGraphNode* node, CuGraph graph, const CuGraphNode*, const void*,
                           std::size_t, CuNodeParams* parameters) {
  if (parameters->type == CuNodeType::kMemAlloc) {
    return cuGraphAddMemAllocNode(node, graph, nullptr, 0, &parameters->allocation);
  }
  return add("cuGraphAddNode_v2", node, graph,
             [&](World& w, Caller& caller, Op* op) { return any_op(w, caller, *parameters, op); });
}

// The node's own graph, which goes with it; here it has a name for as long as the world.
CuResult cuGraphChildGraphNodeGetGraph(CuGraphNode node, CuGraph* child) {
  return call("cuGraphChildGraphNodeGetGraph", Needs::kInit, text("{}", shown(node)),
              [&](World& w, Caller&) {
                const auto found =
                    std::find_if(w.graphs.begin(), w.graphs.end(),
                                 [&](const auto& it) { return it.second == op_of(node).graph; });
                *child = found != w.graphs.end() ? found->first : w.new_handle<CuGraph>();
                w.graphs.emplace(*child, op_of(node).graph);
                return CuResult::kSuccess;
              });
}

CuResult cuGraphMemcpyNodeSetParams(CuGraphNode node, const CuCopy3d* copy) {
  return set("cuGraphMemcpyNodeSetParams", node,
             [&](World& w, Caller&, Op* op) { return copy_op(w, *copy, op); });
}

CuResult cuGraphMemsetNodeSetParams(CuGraphNode node, const CuMemsetNode* it) {
  return set("cuGraphMemsetNodeSetParams", node,
             [&](World& w, Caller&, Op* op) { return set_op(w, *it, op); });
}

CuResult cuGraphNodeSetParams(CuGraphNode node, CuNodeParams* parameters) {
  return set("cuGraphNodeSetParams", node,
             [&](World& w, Caller& caller, Op* op) { return any_op(w, caller, *parameters, op); });
}

CuResult cuGraphExecKernelNodeSetParams_v2(CuGraphExec exec, CuGraphNode node,
                                           const CuKernelNode* kernel) {
  return change(
      "cuGraphExecKernelNodeSetParams_v2", exec, node,
      [&](World& w, Caller& caller, Op* op) { return kernel_node_op(w, caller, *kernel, op); });
}

CuResult cuGraphExecMemcpyNodeSetParams(CuGraphExec exec, CuGraphNode node, const CuCopy3d* copy,
                                        CuContext) {
  return change("cuGraphExecMemcpyNodeSetParams", exec, node,
                [&](World& w, Caller&, Op* op) { return copy_op(w, *copy, op); });
}

CuResult cuGraphExecMemsetNodeSetParams(CuGraphExec exec, CuGraphNode node, const CuMemsetNode* it,
                                        CuContext) {
  return change("cuGraphExecMemsetNodeSetParams", exec, node,
                [&](World& w, Caller&, Op* op) { return set_op(w, *it, op); });
}

CuResult cuGraphExecHostNodeSetParams(CuGraphExec exec, CuGraphNode node, const CuHostNode* it) {
  return change("cuGraphExecHostNodeSetParams", exec, node,
                [&](World&, Caller&, Op* op) { return host_op(*it, op); });
}

CuResult cuGraphExecChildGraphNodeSetParams(CuGraphExec exec, CuGraphNode node, CuGraph child) {
  return change("cuGraphExecChildGraphNodeSetParams", exec, node,
                [&](World& w, Caller& caller, Op* op) { return graph_op(w, caller, child, op); });
}

CuResult cuGraphExecNodeSetParams(CuGraphExec exec, CuGraphNode node, CuNodeParams* parameters) {
  return change("cuGraphExecNodeSetParams", exec, node, [&](World& w, Caller& caller, Op* op) {
    return any_op(w, caller, *parameters, op);
  });
}

CuResult cuGraphNodeSetEnabled(CuGraphExec exec, CuGraphNode node, unsigned enabled) {
  return call("cuGraphNodeSetEnabled", Needs::kContext,
              text("{}, {}, {}", shown(exec), shown(node), enabled), [&](World& w, Caller&) {
                const auto found = w.executables.find(exec);
                Op* const op = found == w.executables.end() ? nullptr : find(*found->second, node);
                if (op == nullptr ||
                    (op->kind != OpKind::kKernel && op->kind != OpKind::kSet && !op->copies())) {
                  return CuResult::kInvalidValue;
                }
                op->enabled = enabled != 0;
                return CuResult::kSuccess;
              });
}

}  // namespace fake_cuda
