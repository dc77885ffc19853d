// Nodes of graphs that a program makes by hand, changes or disables. What the driver looks at when
// it is told of one has its memory meanwhile. Layer: interpose, cuda.
#include <memory>
#include <type_traits>
#include <utility>

#include "interpose/cuda/graphs/executable_graphs.h"
#include "interpose/cuda/memory/driver_memory.h"
#include "interpose/cuda/stream_work.h"

namespace spillway::cuda {
namespace {

GraphUse list_of(NodeUse use) {
  GraphUse list;
  list.push_back(std::move(use));
  return list;
}

// What a node is given: its parameters, however a program may say them.
template <typename Parameters>
GraphUse given(const Session& session, const Parameters* parameters) {
  if (parameters == nullptr) {
    return {};
  }
  if constexpr (std::is_same_v<Parameters, CuNodeParams>) {
    return use_of(session, *parameters);
  } else {
    return list_of(use_of(session, *parameters));
  }
}

// `call` adds a node to a graph that is not executable yet, or changes one: what it uses is read
// when the graph is made executable.
template <typename Parameters, typename Call>
CuResult tell_of_node(const Parameters* parameters, const Call& call) {
  ProgramCall here(CallKind::kOther);
  const Session* const session = here.seen_by();
  return session == nullptr ? here.driver(call)
                            : with_memory(*session, checked_of(given(*session, parameters)),
                                          [&] { return here.driver(call); });
}

template <typename Call>
CuResult add_any(CuGraphNode* node, CuGraph graph, const CuNodeParams* parameters,
                 const Call& call) {
  const CuResult result = tell_of_node(parameters, call);
  if (result == CuResult::kSuccess && node != nullptr &&
      parameters->type == CuNodeType::kConditional) {
    note_conditional(graph, *node, parameters->conditional);
  }
  return result;
}

// A node is given other parameters; `use` is what it uses then.
template <typename Use, typename Call>
CuResult change(CuGraphExec exec, CuGraphNode node, const Use& use, const Call& call) {
  ProgramCall here(CallKind::kOther);
  const Session* const session = here.seen_by();
  if (session == nullptr) {
    return here.driver(call);
  }
  GraphUse now = use(*session);
  keep_for_graphs(*session, now);
  const CuResult result = with_memory(*session, checked_of(now), [&] { return here.driver(call); });
  if (result == CuResult::kSuccess) {
    executable_of(exec)->change(node, std::move(now));
  }
  return result;
}

template <typename Parameters, typename Call>
CuResult change_to(CuGraphExec exec, CuGraphNode node, const Parameters* parameters,
                   const Call& call) {
  return change(
      exec, node, [&](const Session& session) { return given(session, parameters); }, call);
}

template <typename Call>
CuResult enable(CuGraphExec exec, CuGraphNode node, bool enabled, const Call& call) {
  ProgramCall here(CallKind::kOther);
  const CuResult result = here.driver(call);
  const std::shared_ptr<ExecutableGraph> graph =
      here.seen_by() == nullptr ? nullptr : find_executable(exec);
  if (result == CuResult::kSuccess && graph != nullptr) {
    graph->enable(node, enabled);
  }
  return result;
}

// Memory that a graph has of the driver.
void note_allocation(CuResult result, const CuNodeParams* parameters, const void* caller) {
  const ProgramCall here(CallKind::kOther);
  if (!here.inner() && result == CuResult::kSuccess && parameters->type == CuNodeType::kMemAlloc) {
    driver_gave("cuGraphAddNode", DriverMemory::kAddress, parameters->allocation.address,
                parameters->allocation.bytes, caller);
  }
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

extern "C" {

CuResult cuGraphExecKernelNodeSetParams(CuGraphExec exec, CuGraphNode node,
                                        const CuKernelNodeV1* parameters) {
  const cuda::CuKernelNode kernel{
      .launch = parameters != nullptr ? *parameters : cuda::CuKernelNodeV1{},
      .kernel = nullptr,
      .context = nullptr};
  return cuda::change_to(exec, node, parameters != nullptr ? &kernel : nullptr,
                         SPILLWAY_CALL(cuGraphExecKernelNodeSetParams, exec, node, parameters));
}
CuResult cuGraphExecKernelNodeSetParams_v2(CuGraphExec exec, CuGraphNode node,
                                           const CuKernelNode* parameters) {
  return cuda::change_to(exec, node, parameters,
                         SPILLWAY_CALL(cuGraphExecKernelNodeSetParams_v2, exec, node, parameters));
}
CuResult cuGraphExecMemcpyNodeSetParams(CuGraphExec exec, CuGraphNode node, const CuCopy3d* copy,
                                        CuContext context) {
  return cuda::change_to(exec, node, copy,
                         SPILLWAY_CALL(cuGraphExecMemcpyNodeSetParams, exec, node, copy, context));
}
CuResult cuGraphExecMemsetNodeSetParams(CuGraphExec exec, CuGraphNode node, const CuMemsetNode* set,
                                        CuContext context) {
  return cuda::change_to(exec, node, set,
                         SPILLWAY_CALL(cuGraphExecMemsetNodeSetParams, exec, node, set, context));
}
CuResult cuGraphExecHostNodeSetParams(CuGraphExec exec, CuGraphNode node,
                                      const CuHostNode* parameters) {
  return cuda::change_to(exec, node, parameters,
                         SPILLWAY_CALL(cuGraphExecHostNodeSetParams, exec, node, parameters));
}
CuResult cuGraphExecBatchMemOpNodeSetParams(CuGraphExec exec, CuGraphNode node,
                                            const CuStreamOperationsNode* operations) {
  return cuda::change_to(exec, node, operations,
                         SPILLWAY_CALL(cuGraphExecBatchMemOpNodeSetParams, exec, node, operations));
}
CuResult cuGraphExecChildGraphNodeSetParams(CuGraphExec exec, CuGraphNode node, CuGraph child) {
  return cuda::change(
      exec, node, [&](const cuda::Session& session) { return cuda::use_of(session, child); },
      SPILLWAY_CALL(cuGraphExecChildGraphNodeSetParams, exec, node, child));
}
CuResult cuGraphExecNodeSetParams(CuGraphExec exec, CuGraphNode node, CuNodeParams* parameters) {
  return cuda::change_to(exec, node, parameters,
                         SPILLWAY_CALL(cuGraphExecNodeSetParams, exec, node, parameters));
}
CuResult cuGraphNodeSetEnabled(CuGraphExec exec, CuGraphNode node, unsigned enabled) {
  return cuda::enable(exec, node, enabled != 0,
                      SPILLWAY_CALL(cuGraphNodeSetEnabled, exec, node, enabled));
}

CuResult cuGraphAddMemcpyNode(CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,
                              std::size_t count, const CuCopy3d* copy, CuContext context) {
  return cuda::tell_of_node(
      copy, SPILLWAY_CALL(cuGraphAddMemcpyNode, node, graph, dependencies, count, copy, context));
}
CuResult cuGraphAddMemsetNode(CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,
                              std::size_t count, const CuMemsetNode* set, CuContext context) {
  return cuda::tell_of_node(
      set, SPILLWAY_CALL(cuGraphAddMemsetNode, node, graph, dependencies, count, set, context));
}
CuResult cuGraphAddBatchMemOpNode(CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,
                                  std::size_t count, const CuStreamOperationsNode* operations) {
  return cuda::tell_of_node(operations, SPILLWAY_CALL(cuGraphAddBatchMemOpNode, node, graph,
                                                      dependencies, count, operations));
}
CuResult cuGraphAddNode(CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,
                        std::size_t count, CuNodeParams* parameters) {
  const CuResult result =
      cuda::add_any(node, graph, parameters,
                    SPILLWAY_CALL(cuGraphAddNode, node, graph, dependencies, count, parameters));
  cuda::note_allocation(result, parameters, __builtin_return_address(0));
  return result;
}
CuResult cuGraphAddNode_v2(CuGraphNode* node, CuGraph graph, const CuGraphNode* dependencies,
                           const void* edges, std::size_t count, CuNodeParams* parameters) {
  const CuResult result = cuda::add_any(
      node, graph, parameters,
      SPILLWAY_CALL(cuGraphAddNode_v2, node, graph, dependencies, edges, count, parameters));
  cuda::note_allocation(result, parameters, __builtin_return_address(0));
  return result;
}
CuResult cuGraphMemcpyNodeSetParams(CuGraphNode node, const CuCopy3d* copy) {
  return cuda::tell_of_node(copy, SPILLWAY_CALL(cuGraphMemcpyNodeSetParams, node, copy));
}
CuResult cuGraphMemsetNodeSetParams(CuGraphNode node, const CuMemsetNode* set) {
  return cuda::tell_of_node(set, SPILLWAY_CALL(cuGraphMemsetNodeSetParams, node, set));
}
CuResult cuGraphBatchMemOpNodeSetParams(CuGraphNode node,
                                        const CuStreamOperationsNode* operations) {
  return cuda::tell_of_node(operations,
                            SPILLWAY_CALL(cuGraphBatchMemOpNodeSetParams, node, operations));
}
CuResult cuGraphNodeSetParams(CuGraphNode node, CuNodeParams* parameters) {
  return cuda::tell_of_node(parameters, SPILLWAY_CALL(cuGraphNodeSetParams, node, parameters));
}

CuResult cuGraphDestroyNode(CuGraphNode node) {
  cuda::forget_conditional(node);
  return cuda::real().cuGraphDestroyNode(node);
}
}  // extern "C"
