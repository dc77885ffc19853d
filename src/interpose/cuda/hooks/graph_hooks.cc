// Graphs: what they use is read from their nodes when they are made executable, and is what a
// launch of one uses. Layer: interpose, cuda.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "interpose/cuda/captures.h"
#include "interpose/cuda/graphs/executable_graphs.h"
#include "interpose/cuda/issue.h"
#include "interpose/cuda/looks.h"
#include "interpose/cuda/operands/pointer_tables.h"

namespace spillway::cuda {
namespace {

// It may be launched by the device, which launches it whole.
constexpr unsigned long long kForDeviceLaunch = 4;

// `call` makes something of `graph` that can be launched. `before` is what it was, if anything.
template <typename Call>
CuResult make_executable(CuGraphExec* exec, CuGraph graph, unsigned long long flags,
                         const std::shared_ptr<ExecutableGraph>& before, const Call& call) {
  ProgramCall here(CallKind::kOther);
  const Session* const session = here.seen_by();
  if (session == nullptr) {
    return here.driver(call);
  }
  destroy_ended_executables();
  GraphUse use = use_of(*session, graph);
  keep_for_graphs(*session, use);
  const CuResult result = with_memory(*session, checked_of(use), [&] { return here.driver(call); });
  if (result == CuResult::kSuccess && exec != nullptr) {
    auto made = std::make_shared<ExecutableGraph>(
        std::move(use), captures_of(graph),
        before != nullptr ? before->order() : std::make_shared<GraphLaunchOrder>());
    if ((flags & kForDeviceLaunch) != 0 || (before != nullptr && before->had_disabled())) {
      made->stay_whole();
    }
    set_executable(*exec, std::move(made));
  }
  return result;
}

template <typename Call>
CuResult instantiate(CuGraphExec* exec, CuGraph graph, unsigned long long flags, const Call& call) {
  return make_executable(exec, graph, flags, nullptr, call);
}

template <typename Call>
CuResult update(CuGraphExec exec, CuGraph graph, const Call& call) {
  const std::shared_ptr<ExecutableGraph> before = find_executable(exec);
  return make_executable(&exec, graph, 0, before, call);
}

// What it copies and writes puts addresses where kernels find them.
void note_addresses(const Session& session, const GraphLaunchUse& use) {
  for (const CarryingCopy& copy : use.copies) {
    if (session.platform->memory().contains(copy.from)) {
      note_copied_within(session, copy.to, copy.from, copy.bytes);
    } else {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the host's, if it can be read
      note_copied_in(session, copy.to, reinterpret_cast<const void*>(copy.from), copy.bytes,
                     Beside::kWhatWasThere);
      if (copy.bytes > kMostScannedBytes) {
        note_unscanned(session, {.start = copy.to, .bytes = copy.bytes});
      }
    }
  }
  for (const WrittenValue& value : use.values) {
    note_written(session, value.to, value.word);
  }
}

// With more than this part of the budget a whole launch would have to wait until what was before it
// has ended and left, and whatever is behind it would wait for its end.
constexpr Bytes kMostPart = 2;

bool is_large(const Session& session, const GraphLaunchUse& use) {
  return use.bytes > session.platform->capacity_bytes(Tier::kDevice) / kMostPart;
}

// Before it runs: what one of its nodes stores for another is not seen.
void look_before(const Session& session, CuStream stream, const GraphLaunchUse& use) {
  for (bool more = use.reaches && may_look(session); more;) {
    const std::vector<CudaOperand> with_tables = operands_with_tables(session, use);
    const auto& all = with_tables.empty() ? use.operands : with_tables;
    more = look_at(session, stream, hash_of(use.hash, all), all);
  }
}

void note_given_to(const Session& session, CuStream stream, const GraphLaunchUse& use) {
  if (use.exposes) {
    note_given(session, stream, use.hash.first, use.hash, use.operands);
  }
}

template <typename Call>
CuResult launch_whole(const Session& session, ExecutableGraph& graph, const GraphLaunchUse& use,
                      CuStream stream, const Call& call) {
  const std::vector<CudaOperand> with_tables = operands_with_tables(session, use);
  const CudaLaunch what{.stream = stream,
                        .hash = use.hash,
                        .name = graph.name(),
                        .operands = with_tables.empty() ? use.operands : with_tables,
                        .needs_mapping = false,
                        .exposes = use.exposes,
                        .reaches = use.reaches};
  const bool unannounced =
      what.operands.empty() && !(use.reaches && session.platform->launches().has_exposed());
  return graph.order()->whole(session, stream, is_large(session, use),
                              [&] { return unannounced ? call() : issue(session, what, call); });
}

template <typename Call>
CuResult launch(CuGraphExec exec, CuStream stream, const Call& call) {
  ProgramCall here(CallKind::kLaunch);
  const Session* const session = here.seen_by();
  if (session == nullptr || captured(stream)) {
    return here.driver(call);
  }
  const std::shared_ptr<ExecutableGraph> graph = find_executable(exec);
  if (graph == nullptr) {
    return here.driver(call);
  }
  const std::shared_ptr<const GraphLaunchUse> use = graph->launch_use();
  note_addresses(*session, *use);
  look_before(*session, stream, *use);
  if (is_large(*session, *use) && !session->platform->bypass().calls_are_open() &&
      recording() == nullptr) {
    const std::shared_ptr<const GraphSteps> steps = graph->steps();
    const std::optional<CuResult> result =
        steps == nullptr ? std::nullopt : graph->order()->in_steps(*session, stream, *steps);
    if (result) {
      note_given_to(*session, stream, *use);
      return *result;
    }
  }
  const CuResult result =
      launch_whole(*session, *graph, *use, stream, [&] { return here.driver(call); });
  note_given_to(*session, stream, *use);
  return result;
}

template <typename Call>
CuResult begin_capture(CuStream stream, const Call& call) {
  ProgramCall here(CallKind::kOther);
  const Session* const session = here.seen_by();
  if (here.inner()) {
    return here.driver(call);
  }
  capture_begins();
  if (session != nullptr) {
    session->platform->streams().capture_begins();
  }
  const CuResult result = here.driver(call);
  if (result == CuResult::kSuccess) {
    capture_begun(stream);
  } else {
    capture_refused();
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
    return cuda::begin_capture(cuda::meant(stream, per_thread),                                    \
                               [&] { return cuda::real().cuStreamBeginCapture##suffix(stream); }); \
  }                                                                                                \
  CuResult cuStreamBeginCapture_v2##suffix(CuStream stream, unsigned mode) {                       \
    return cuda::begin_capture(cuda::meant(stream, per_thread), [&] {                              \
      return cuda::real().cuStreamBeginCapture_v2##suffix(stream, mode);                           \
    });                                                                                            \
  }                                                                                                \
  CuResult cuStreamBeginCaptureToGraph##suffix(CuStream stream, CuGraph graph,                     \
                                               const CuGraphNode* dependencies, const void* edges, \
                                               std::size_t count, unsigned mode) {                 \
    return cuda::begin_capture(cuda::meant(stream, per_thread), [&] {                              \
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
    const auto* const flags = static_cast<const unsigned long long*>(parameters);                  \
    return cuda::instantiate(exec, graph, flags == nullptr ? 0 : *flags, [&] {                     \
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
  return cuda::instantiate(exec, graph, 0, [&] {
    return cuda::real().cuGraphInstantiate(exec, graph, failed, log, log_bytes);
  });
}
CuResult cuGraphInstantiate_v2(CuGraphExec* exec, CuGraph graph, CuGraphNode* failed, char* log,
                               std::size_t log_bytes) {
  return cuda::instantiate(exec, graph, 0, [&] {
    return cuda::real().cuGraphInstantiate_v2(exec, graph, failed, log, log_bytes);
  });
}
CuResult cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph graph, unsigned long long flags) {
  return cuda::instantiate(exec, graph, flags, [&] {
    return cuda::real().cuGraphInstantiateWithFlags(exec, graph, flags);
  });
}
CuResult cuGraphExecUpdate(CuGraphExec exec, CuGraph graph, CuGraphNode* failed, unsigned* result) {
  return cuda::update(exec, graph,
                      [&] { return cuda::real().cuGraphExecUpdate(exec, graph, failed, result); });
}
CuResult cuGraphExecUpdate_v2(CuGraphExec exec, CuGraph graph, void* result) {
  return cuda::update(exec, graph,
                      [&] { return cuda::real().cuGraphExecUpdate_v2(exec, graph, result); });
}

CuResult cuGraphExecDestroy(CuGraphExec exec) { return cuda::destroy_executable(exec); }
CuResult cuGraphDestroy(CuGraph graph) {
  cuda::forget_graph(graph);
  cuda::forget_conditionals_of(graph);
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
