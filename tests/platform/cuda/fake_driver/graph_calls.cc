// Captures and graphs: what is put on a captured stream is kept, and put on a stream when its graph
// is launched. Fake driver.
#include <algorithm>

#include "world.h"

namespace fake_cuda {

CuGraphNode node_of(const Op& op) {
  return reinterpret_cast<CuGraphNode>(const_cast<Op*>(&op));  // NOLINT(*-const-cast)
}

Op& op_of(CuGraphNode node) { return *reinterpret_cast<Op*>(node); }

CuResult find_graph(World& w, const Caller& caller, CuGraph handle, std::shared_ptr<Graph>* graph) {
  const auto found = w.graphs.find(handle);
  if (found == w.graphs.end()) {
    w.report.violation(FAKE_CUDA_BAD_HANDLE, "{}: there is no graph {}", caller.call,
                       shown(handle));
    return CuResult::kInvalidHandle;
  }
  *graph = found->second;
  return CuResult::kSuccess;
}

std::shared_ptr<Graph> clone(const Graph& graph) {
  auto made = std::make_shared<Graph>(graph);
  for (Op& op : made->ops) {
    if (op.graph != nullptr) {
      op.graph = clone(*op.graph);
    }
  }
  return made;
}

std::shared_ptr<Graph> executable(const Graph& graph) {
  auto made = std::make_shared<Graph>(graph);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    made->ops[i].node = &graph.ops[i];
    if (graph.ops[i].graph != nullptr) {
      made->ops[i].graph = executable(*graph.ops[i].graph);
    }
  }
  return made;
}

namespace {

CuCopy3d::Side side_of(std::uint64_t address, bool on_device) {
  CuCopy3d::Side side{};
  side.type = on_device ? CuMemoryType::kDevice : CuMemoryType::kHost;
  side.device = on_device ? address : 0;
  side.host = on_device ? nullptr : reinterpret_cast<const void*>(address);  // NOLINT
  return side;
}

bool sets_have_memory(const World& w, const Graph& graph) {
  return std::all_of(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
    return op.kind == OpKind::kSet     ? w.memory->problem({op.to, op.bytes, true}).empty()
           : op.kind == OpKind::kGraph ? sets_have_memory(w, *op.graph)
                                       : true;
  });
}

CuResult submit_all(World& w, Caller& caller, CuStream stream, const Graph& graph) {
  for (const Op& op : graph.ops) {
    // A recording is an order within the graph, which has one anyway.
    if (!op.enabled || op.kind == OpKind::kRecord) {
      continue;
    }
    const CuResult result = op.kind == OpKind::kGraph ? submit_all(w, caller, stream, *op.graph)
                                                      : w.submit(caller, stream, op);
    if (result != CuResult::kSuccess) {
      return result;
    }
  }
  return CuResult::kSuccess;
}

constexpr unsigned kGlobal = 0;
constexpr unsigned kRelaxed = 2;

}  // namespace

CuResult World::unsafe_beside_captures() {
  const unsigned mode = this_thread().capture_mode;
  CuResult result = CuResult::kSuccess;
  for (const auto& stream : alive) {
    Graph* const capture = stream->captured_into.get();
    if (capture == nullptr || mode == kRelaxed) {
      continue;
    }
    const bool own = capture->captured_by == std::this_thread::get_id();
    if (own ? capture->capture_mode != kRelaxed
            : mode == kGlobal && capture->capture_mode == kGlobal) {
      capture->invalid = true;
      result = CuResult::kCaptureUnsupported;
    }
  }
  return result;
}

CuResult World::waits_beside_captures(const Context& context) {
  CuResult result = CuResult::kSuccess;
  for (const auto& stream : alive) {
    if (stream->context.get() == &context && stream->captured_into != nullptr) {
      stream->captured_into->invalid = true;
      result = CuResult::kCaptureUnsupported;
    }
  }
  return result;
}

CuResult cuStreamBeginCapture_v2(CuStream handle, unsigned mode) {
  return call("cuStreamBeginCapture_v2", Needs::kContext, text("{}, {}", shown(handle), mode),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Stream> stream;
                const CuResult result = w.find_stream(caller, handle, &stream);
                if (result != CuResult::kSuccess || stream->null_stream() ||
                    stream->captured_into != nullptr) {
                  return CuResult::kIllegalState;
                }
                stream->captured_into = std::make_shared<Graph>();
                stream->captured_into->capture = ++w.captures;
                stream->captured_into->capture_mode = mode;
                stream->captured_into->captured_by = std::this_thread::get_id();
                return CuResult::kSuccess;
              });
}

CuResult cuThreadExchangeStreamCaptureMode(unsigned* mode) {
  return call("cuThreadExchangeStreamCaptureMode", Needs::kInit, text("{}", *mode),
              [&](World&, Caller&) {
                std::swap(*mode, this_thread().capture_mode);
                return CuResult::kSuccess;
              });
}

CuResult cuStreamEndCapture(CuStream handle, CuGraph* graph) {
  return call("cuStreamEndCapture", Needs::kContext, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Stream> stream;
                const CuResult result = w.find_stream(caller, handle, &stream);
                if (result != CuResult::kSuccess || stream->captured_into == nullptr) {
                  return CuResult::kIllegalState;
                }
                const std::shared_ptr<Graph> made = stream->captured_into;
                for (const auto& [other_handle, other] : w.streams) {
                  if (other->captured_into == made) {
                    other->captured_into.reset();
                  }
                }
                if (made->invalid) {
                  *graph = nullptr;
                  return CuResult::kCaptureInvalidated;
                }
                *graph = w.new_handle<CuGraph>();
                w.graphs.emplace(*graph, made);
                return CuResult::kSuccess;
              });
}

CuResult cuStreamGetCaptureInfo(CuStream handle, CuCaptureStatus* status, std::uint64_t* id) {
  return call("cuStreamGetCaptureInfo", Needs::kContext, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Stream> stream;
                const CuResult result = w.find_stream(caller, handle, &stream);
                if (result != CuResult::kSuccess) {
                  return result;
                }
                const bool captured = stream->captured_into != nullptr;
                *status = captured ? CuCaptureStatus::kActive : CuCaptureStatus::kNone;
                if (id != nullptr) {
                  *id = captured ? stream->captured_into->capture : 0;
                }
                return CuResult::kSuccess;
              });
}

CuResult cuStreamIsCapturing(CuStream stream, CuCaptureStatus* status) {
  return cuStreamGetCaptureInfo(stream, status, nullptr);
}

// Copies and memsets want their memory now (docs/gpu.md section 5).
CuResult cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph handle, unsigned long long flags) {
  return call("cuGraphInstantiateWithFlags", Needs::kContext, text("{}, {}", shown(handle), flags),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Graph> graph;
                const CuResult result = find_graph(w, caller, handle, &graph);
                if (result != CuResult::kSuccess) {
                  return result;
                }
                if (!sets_have_memory(w, *graph)) {
                  return CuResult::kInvalidValue;
                }
                *exec = w.new_handle<CuGraphExec>();
                w.executables.emplace(*exec, executable(*graph));
                return CuResult::kSuccess;
              });
}

CuResult cuGraphLaunch(CuGraphExec exec, CuStream stream) {
  return call("cuGraphLaunch", Needs::kContext, text("{}, {}", shown(exec), shown(stream)),
              [&](World& w, Caller& caller) {
                const auto found = w.executables.find(exec);
                if (found == w.executables.end()) {
                  w.report.violation(FAKE_CUDA_BAD_HANDLE, "cuGraphLaunch: there is no graph {}",
                                     shown(exec));
                  return CuResult::kInvalidHandle;
                }
                return submit_all(w, caller, stream, *found->second);
              });
}

CuResult cuGraphExecDestroy(CuGraphExec exec) {
  return call("cuGraphExecDestroy", Needs::kInit, text("{}", shown(exec)), [&](World& w, Caller&) {
    return w.executables.erase(exec) == 1 ? CuResult::kSuccess : CuResult::kInvalidHandle;
  });
}

CuResult cuGraphDestroy(CuGraph graph) {
  return call("cuGraphDestroy", Needs::kInit, text("{}", shown(graph)), [&](World& w, Caller&) {
    return w.graphs.erase(graph) == 1 ? CuResult::kSuccess : CuResult::kInvalidHandle;
  });
}

// In no order that anybody may rely on.
CuResult cuGraphGetNodes(CuGraph handle, CuGraphNode* nodes, std::size_t* count) {
  return call("cuGraphGetNodes", Needs::kInit, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Graph> graph;
                const CuResult result = find_graph(w, caller, handle, &graph);
                if (result != CuResult::kSuccess) {
                  return result;
                }
                if (nodes != nullptr) {
                  *count = std::min(*count, graph->ops.size());
                  for (std::size_t i = 0; i < *count; ++i) {
                    nodes[i] = node_of(graph->ops[graph->ops.size() - 1 - i]);
                  }
                } else {
                  *count = graph->ops.size();
                }
                return CuResult::kSuccess;
              });
}

// One behind the other, as they were added.
CuResult cuGraphGetEdges_v2(CuGraph handle, CuGraphNode* from, CuGraphNode* to,
                            CuGraphEdge* /*edges*/, std::size_t* count) {
  return call("cuGraphGetEdges_v2", Needs::kInit, text("{}", shown(handle)),
              [&](World& w, Caller& caller) {
                std::shared_ptr<Graph> graph;
                const CuResult result = find_graph(w, caller, handle, &graph);
                if (result != CuResult::kSuccess) {
                  return result;
                }
                const std::size_t all = graph->ops.empty() ? 0 : graph->ops.size() - 1;
                *count = from == nullptr ? all : std::min(*count, all);
                for (std::size_t i = 0; from != nullptr && i < *count; ++i) {
                  from[i] = node_of(graph->ops[i]);
                  to[i] = node_of(graph->ops[i + 1]);
                }
                return CuResult::kSuccess;
              });
}

// Nobody has said anything but the default.
CuResult cuGraphKernelNodeGetAttribute(CuGraphNode, unsigned, void* value) {
  std::fill_n(static_cast<unsigned char*>(value), sizeof(CuLaunchAttribute::value), 0);
  return CuResult::kSuccess;
}

CuResult cuGraphHostNodeGetParams(CuGraphNode node, CuHostNode* parameters) {
  *parameters = {.function = op_of(node).function, .argument = op_of(node).argument};
  return CuResult::kSuccess;
}

// Each of its own.
CuResult cuGraphBatchMemOpNodeGetParams(CuGraphNode node, CuStreamOperationsNode* operations) {
  const Op& op = op_of(node);
  thread_local CuStreamOperation operation;  // valid until the next question
  operation = {.type = op.kind == OpKind::kWriteValue ? CuStreamOperationType::kWriteValue64
                                                      : CuStreamOperationType::kWaitValue64,
               .address = op.to,
               .value = op.value,
               .flags = op.flags,
               .reserved = {}};
  *operations = {.context = nullptr, .count = 1, .operations = &operation, .flags = 0};
  return CuResult::kSuccess;
}

CuResult cuGraphNodeGetType(CuGraphNode node, CuNodeType* type) {
  const Op& op = op_of(node);
  *type = op.kind == OpKind::kKernel         ? CuNodeType::kKernel
          : op.copies()                      ? CuNodeType::kCopy
          : op.kind == OpKind::kSet          ? CuNodeType::kMemset
          : op.kind == OpKind::kHostFunction ? CuNodeType::kHost
          : op.writes_or_awaits_value()      ? CuNodeType::kStreamOperations
          : op.conditional                   ? CuNodeType::kConditional
          : op.kind == OpKind::kGraph        ? CuNodeType::kGraph
                                             : CuNodeType::kEmpty;
  return CuResult::kSuccess;
}

CuResult cuGraphKernelNodeGetParams_v2(CuGraphNode node, CuKernelNode* parameters) {
  const Op& op = op_of(node);
  // Valid as long as the graph is, in the driver as well; here only until the next question.
  thread_local std::vector<void*> pointers;
  pointers.clear();
  for (const std::size_t offset : op.kernel->offsets) {
    pointers.push_back(const_cast<std::byte*>(op.parameters.data()) +
                       offset);  // NOLINT(*-const-cast)
  }
  *parameters = {};
  parameters->launch.function =
      reinterpret_cast<CuFunction>(const_cast<Kernel*>(op.kernel));  // NOLINT
  parameters->launch.parameters = pointers.data();
  parameters->launch.grid_x = op.launch.grid[0];
  parameters->launch.grid_y = op.launch.grid[1];
  parameters->launch.grid_z = op.launch.grid[2];
  parameters->launch.block_x = op.launch.block[0];
  parameters->launch.block_y = op.launch.block[1];
  parameters->launch.block_z = op.launch.block[2];
  parameters->launch.shared_bytes = op.launch.shared_bytes;
  return CuResult::kSuccess;
}

CuResult cuGraphMemcpyNodeGetParams(CuGraphNode node, CuCopy3d* copy) {
  const Op& op = op_of(node);
  *copy = {};
  copy->from = side_of(op.from, op.kind != OpKind::kCopyIn);
  copy->to = side_of(op.to, op.kind != OpKind::kCopyOut);
  copy->width_bytes = op.bytes;
  copy->height = 1;
  copy->depth = 1;
  return CuResult::kSuccess;
}

CuResult cuGraphMemsetNodeGetParams(CuGraphNode node, CuMemsetNode* set) {
  const Op& op = op_of(node);
  *set = {};
  set->to = op.to;
  set->value = op.byte;
  set->element_bytes = 1;
  set->width = op.bytes;
  set->height = 1;
  return CuResult::kSuccess;
}

}  // namespace fake_cuda
