// Graphs: what they use is read from their nodes when they are made executable, and is what a
// launch of one uses. Layer: front, cuda.
#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "front/cuda/captures.h"
#include "front/cuda/carried_addresses.h"
#include "front/cuda/issue.h"
#include "front/cuda/launch_operands.h"

namespace spillway::cuda {
namespace {

struct ExecutableGraph {
  std::vector<CudaOperand> operands;
  std::vector<CarryingCopy> copies;
  LaunchHash hash;
  std::string name;
  Captures captures;
};

struct Executables {
  std::mutex mutex;
  std::unordered_map<CuGraphExec, std::shared_ptr<ExecutableGraph>> by_handle;
};
Executables& executables() {
  static auto* const all = new Executables;  // threads of the program may run until the very end
  return *all;
}

std::shared_ptr<ExecutableGraph> find(CuGraphExec exec) {
  const std::scoped_lock lock(executables().mutex);
  const auto found = executables().by_handle.find(exec);
  return found == executables().by_handle.end() ? nullptr : found->second;
}

// nullptr: it is no more.
void replace(CuGraphExec exec, std::shared_ptr<ExecutableGraph> graph) {
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
    give_up(std::move(graph->captures));
  }
}

void set_operands(ExecutableGraph& graph, const Operands& operands, std::string name) {
  graph.operands.assign(operands.all().begin(), operands.all().end());
  graph.hash = operands.hash(hash_launch(name, {}));
  graph.name = std::move(name);
}

// The whole allocations: who can launch may use all of them.
void add_whole(Operands& operands, std::span<const CudaOperand> used) {
  for (const CudaOperand& operand : used) {
    operands.add_pointer(operand.address);
  }
}

// `call` makes `graph` executable, or makes `exec` what `graph` is.
template <typename Call>
CuResult instantiate(CuGraphExec* exec, CuGraph graph, const Call& call) {
  ProgramCall here(CallKind::kOther);
  const Session* const session = here.seen_by();
  if (session == nullptr) {
    return here.driver(call);
  }
  GraphUse use(*session);
  add_graph(use, graph);
  const CuResult result =
      with_memory(*session, use.copied.all(), [&] { return here.driver(call); });
  if (result == CuResult::kSuccess && exec != nullptr) {
    add_whole(use.operands, use.copied.all());
    auto made = std::make_shared<ExecutableGraph>();
    set_operands(*made, use.operands, fmt::format("a graph of {} kernels", use.kernels));
    made->copies = std::move(use.copies);
    made->captures = captures_of(graph);
    replace(*exec, std::move(made));
  }
  return result;
}

// A node is given other parameters: what it used before may be used no more, which harms nothing.
// `add` names what it uses now.
template <typename Add, typename Call>
CuResult change(CuGraphExec exec, CuGraphNode node, const Add& add, const Call& call) {
  ProgramCall here(CallKind::kOther);
  const Session* const session = here.seen_by();
  const std::shared_ptr<ExecutableGraph> before = session == nullptr ? nullptr : find(exec);
  if (before == nullptr) {
    return here.driver(call);
  }
  Operands operands(*session);
  add_whole(operands, before->operands);
  GraphUse more(*session);
  add(more);
  add_whole(operands, more.operands.all());
  add_whole(operands, more.copied.all());
  const CuResult result =
      with_memory(*session, more.copied.all(), [&] { return here.driver(call); });
  if (result == CuResult::kSuccess) {
    auto after = std::make_shared<ExecutableGraph>();
    set_operands(*after, operands, before->name);
    // What it copied before it copies no more, and its source may be gone.
    after->copies = std::move(more.copies);
    for (CarryingCopy& copy : after->copies) {
      copy.node = node;
    }
    for (const CarryingCopy& copy : before->copies) {
      if (copy.node != node) {
        after->copies.push_back(copy);
      }
    }
    after->captures = before->captures;
    replace(exec, std::move(after));
  }
  return result;
}

// The tables of pointers that its kernels are given may hold others than when it was made
// executable. What may be written comes first: it stays so.
void add_again(Operands& operands, const ExecutableGraph& graph) {
  operands.add_what_is_everywhere();
  for (const bool written : {true, false}) {
    for (const CudaOperand& operand : graph.operands) {
      if (writes(operand.mode) == written) {
        operands.add_pointer(operand.address, operand.mode);
      }
    }
  }
}

template <typename Call>
CuResult launch(CuGraphExec exec, CuStream stream, const Call& call) {
  ProgramCall here(CallKind::kLaunch);
  const Session* const session = here.seen_by();
  if (session == nullptr || captured(stream)) {
    return here.driver(call);
  }
  const std::shared_ptr<ExecutableGraph> graph = find(exec);
  if (graph == nullptr) {
    return here.driver(call);
  }
  for (const CarryingCopy& copy : graph->copies) {
    if (session->platform->contains(copy.from)) {
      note_copied_within(*session, copy.to, copy.from);
    } else {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the host's, if it can be read
      note_copied_in(*session, copy.to, reinterpret_cast<const void*>(copy.from), copy.bytes);
    }
  }
  CudaLaunch what{.stream = stream,
                  .hash = graph->hash,
                  .name = graph->name,
                  .operands = graph->operands,
                  .needs_mapping = false};
  Operands now(*session);
  if (addresses_are_carried()) {
    add_again(now, *graph);
    what.operands = now.all();
  }
  if (what.operands.empty()) {
    return here.driver(call);
  }
  return issue(*session, what, [&] { return here.driver(call); });
}

template <typename Call>
CuResult begin_capture(const Call& call) {
  ProgramCall here(CallKind::kOther);
  const Session* const session = here.seen_by();
  // What we still have to put on streams must not be captured.
  if (session != nullptr) {
    session->platform->before_wait(std::nullopt);
  }
  const CuResult result = here.driver(call);
  if (result == CuResult::kSuccess && !here.inner()) {
    capture_began();
  }
  return result;
}

template <typename Call>
CuResult end_capture(CuStream stream, CuGraph* graph, const Call& call) {
  ProgramCall here(CallKind::kOther);
  if (here.inner()) {
    return here.driver(call);
  }
  const EndingCapture ending = capture_to_end(stream);
  const CuResult result = here.driver(call);
  capture_ended(ending, stream,
                result == CuResult::kSuccess && graph != nullptr ? *graph : nullptr);
  return result;
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

#define SPILLWAY_CAPTURES(suffix, per_thread)                                                      \
  CuResult cuStreamBeginCapture##suffix(CuStream stream) {                                         \
    return cuda::begin_capture([&] { return cuda::real().cuStreamBeginCapture##suffix(stream); }); \
  }                                                                                                \
  CuResult cuStreamBeginCapture_v2##suffix(CuStream stream, unsigned mode) {                       \
    return cuda::begin_capture(                                                                    \
        [&] { return cuda::real().cuStreamBeginCapture_v2##suffix(stream, mode); });               \
  }                                                                                                \
  CuResult cuStreamBeginCaptureToGraph##suffix(CuStream stream, CuGraph graph,                     \
                                               const CuGraphNode* dependencies, const void* edges, \
                                               std::size_t count, unsigned mode) {                 \
    return cuda::begin_capture([&] {                                                               \
      return cuda::real().cuStreamBeginCaptureToGraph##suffix(stream, graph, dependencies, edges,  \
                                                              count, mode);                        \
    });                                                                                            \
  }                                                                                                \
  CuResult cuStreamEndCapture##suffix(CuStream stream, CuGraph* graph) {                           \
    return cuda::end_capture(cuda::meant(stream, per_thread), graph, [&] {                         \
      return cuda::real().cuStreamEndCapture##suffix(stream, graph);                               \
    });                                                                                            \
  }                                                                                                \
  CuResult cuGraphInstantiateWithParams##suffix(CuGraphExec* exec, CuGraph graph,                  \
                                                void* parameters) {                                \
    return cuda::instantiate(exec, graph, [&] {                                                    \
      return cuda::real().cuGraphInstantiateWithParams##suffix(exec, graph, parameters);           \
    });                                                                                            \
  }                                                                                                \
  CuResult cuGraphLaunch##suffix(CuGraphExec exec, CuStream stream) {                              \
    return cuda::launch(exec, cuda::meant(stream, per_thread),                                     \
                        [&] { return cuda::real().cuGraphLaunch##suffix(exec, stream); });         \
  }

extern "C" {

SPILLWAY_CAPTURES(, false)
SPILLWAY_CAPTURES(_ptsz, true)

CuResult cuGraphInstantiate(CuGraphExec* exec, CuGraph graph, CuGraphNode* failed, char* log,
                            std::size_t log_bytes) {
  return cuda::instantiate(exec, graph, [&] {
    return cuda::real().cuGraphInstantiate(exec, graph, failed, log, log_bytes);
  });
}
CuResult cuGraphInstantiate_v2(CuGraphExec* exec, CuGraph graph, CuGraphNode* failed, char* log,
                               std::size_t log_bytes) {
  return cuda::instantiate(exec, graph, [&] {
    return cuda::real().cuGraphInstantiate_v2(exec, graph, failed, log, log_bytes);
  });
}
CuResult cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph graph, unsigned long long flags) {
  return cuda::instantiate(
      exec, graph, [&] { return cuda::real().cuGraphInstantiateWithFlags(exec, graph, flags); });
}
CuResult cuGraphExecUpdate(CuGraphExec exec, CuGraph graph, CuGraphNode* failed, unsigned* result) {
  return cuda::instantiate(
      &exec, graph, [&] { return cuda::real().cuGraphExecUpdate(exec, graph, failed, result); });
}
CuResult cuGraphExecUpdate_v2(CuGraphExec exec, CuGraph graph, void* result) {
  return cuda::instantiate(&exec, graph,
                           [&] { return cuda::real().cuGraphExecUpdate_v2(exec, graph, result); });
}

CuResult cuGraphExecKernelNodeSetParams(CuGraphExec exec, CuGraphNode node,
                                        const CuKernelNodeV1* parameters) {
  return cuda::change(
      exec, node,
      [&](cuda::GraphUse& use) {
        cuda::add_parameters(use.operands, cuda::kernel_layout(parameters->function),
                             parameters->parameters, parameters->extra);
      },
      [&] { return cuda::real().cuGraphExecKernelNodeSetParams(exec, node, parameters); });
}
CuResult cuGraphExecKernelNodeSetParams_v2(CuGraphExec exec, CuGraphNode node,
                                           const CuKernelNode* parameters) {
  return cuda::change(
      exec, node, [&](cuda::GraphUse& use) { cuda::add_kernel_node(use, *parameters); },
      [&] { return cuda::real().cuGraphExecKernelNodeSetParams_v2(exec, node, parameters); });
}
CuResult cuGraphExecMemcpyNodeSetParams(CuGraphExec exec, CuGraphNode node, const CuCopy3d* copy,
                                        CuContext context) {
  return cuda::change(
      exec, node, [&](cuda::GraphUse& use) { cuda::add_copy_node(use, node, *copy); },
      [&] { return cuda::real().cuGraphExecMemcpyNodeSetParams(exec, node, copy, context); });
}
CuResult cuGraphExecMemsetNodeSetParams(CuGraphExec exec, CuGraphNode node, const CuMemsetNode* set,
                                        CuContext context) {
  return cuda::change(
      exec, node, [&](cuda::GraphUse& use) { cuda::add_memset(use.copied, *set); },
      [&] { return cuda::real().cuGraphExecMemsetNodeSetParams(exec, node, set, context); });
}
CuResult cuGraphExecChildGraphNodeSetParams(CuGraphExec exec, CuGraphNode node, CuGraph child) {
  return cuda::change(
      exec, node, [&](cuda::GraphUse& use) { cuda::add_graph(use, child); },
      [&] { return cuda::real().cuGraphExecChildGraphNodeSetParams(exec, node, child); });
}
CuResult cuGraphExecNodeSetParams(CuGraphExec exec, CuGraphNode node, void* parameters) {
  return cuda::change(
      exec, node,
      [](cuda::GraphUse& use) {
        use.operands.add_everything();
        use.copied.add_everything();
      },
      [&] { return cuda::real().cuGraphExecNodeSetParams(exec, node, parameters); });
}

CuResult cuGraphExecDestroy(CuGraphExec exec) {
  cuda::replace(exec, nullptr);
  return cuda::real().cuGraphExecDestroy(exec);
}
CuResult cuGraphDestroy(CuGraph graph) {
  cuda::forget_graph(graph);
  return cuda::real().cuGraphDestroy(graph);
}
CuResult cuGraphClone(CuGraph* clone, CuGraph graph) {
  const CuResult result = cuda::real().cuGraphClone(clone, graph);
  if (result == CuResult::kSuccess && clone != nullptr) {
    cuda::set_captures(*clone, cuda::captures_of(graph));
  }
  return result;
}

}  // extern "C"
