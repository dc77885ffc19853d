// The graphs of each perturbation, and which iteration runs which. See perturb.h.
#include "trace/perturb.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/rng.h"
#include "trace/perturb/forward_part.h"
#include "trace/perturb/thinned.h"
#include "trace/validate.h"

namespace spillway {
namespace {

constexpr std::uint32_t kShapeCount = 5;
constexpr std::uint32_t kIterationsOfOwnShape = 3;
constexpr double kLeastFactor = 0.6;
constexpr double kFactorRange = 0.8;
constexpr Bytes kGranularityBytes = 512;  // what a caching allocator rounds to
constexpr std::uint32_t kEvaluationEvery = 10;

constexpr std::array<std::pair<std::string_view, Perturbation>, 4> kNames{{
    {"none", Perturbation::kNone},
    {"shapes", Perturbation::kShapes},
    {"evaluation", Perturbation::kEvaluation},
    {"alternating", Perturbation::kAlternating},
}};

TimeNs scaled(TimeNs time_ns, double factor) {
  return static_cast<TimeNs>(std::round(static_cast<double>(time_ns) * factor));
}

// The trace's kernels over intermediate tensors of another size, appended to `tensors`.
std::vector<Kernel> reshaped(const Trace& trace, double factor, std::vector<Tensor>& tensors) {
  constexpr TensorId kNone = std::numeric_limits<TensorId>::max();
  std::vector<TensorId> ids(trace.tensors.size(), kNone);
  const auto id_of = [&](TensorId id) {
    if (trace.tensors[id].persistent) {
      return id;
    }
    if (ids[id] == kNone) {
      ids[id] = static_cast<TensorId>(tensors.size());
      Tensor tensor = trace.tensors[id];
      const double bytes = std::ceil(static_cast<double>(tensor.bytes) * factor);
      tensor.bytes = round_up(static_cast<Bytes>(bytes), kGranularityBytes);
      tensors.push_back(tensor);
    }
    return ids[id];
  };
  std::vector<Kernel> kernels = trace.kernels;
  for (Kernel& kernel : kernels) {
    bool is_scaled = false;
    for (auto* list : {&kernel.reads, &kernel.writes}) {
      for (TensorId& id : *list) {
        is_scaled = is_scaled || !trace.tensors[id].persistent;
        id = id_of(id);
      }
    }
    if (is_scaled) {
      kernel.duration_ns = std::max<TimeNs>(scaled(kernel.duration_ns, factor), 1);
      kernel.input_fault_ns = scaled(kernel.input_fault_ns, factor);
      kernel.all_fault_ns = scaled(kernel.all_fault_ns, factor);
    }
  }
  return kernels;
}

std::vector<Kernel> evaluation(const Trace& trace) {
  std::vector<Kernel> kernels(trace.kernels.begin(),
                              trace.kernels.begin() + forward_kernels(trace));
  for (Kernel& kernel : kernels) {
    std::erase_if(kernel.writes, [&](TensorId id) { return trace.tensors[id].persistent; });
  }
  return kernels;
}

void add_shapes(const Trace& trace, std::uint64_t seed, Program& program) {
  Rng rng(seed);
  // One from each fifth of the range: shapes differ, and no seed has only small or large ones.
  for (std::uint32_t shape = 0; shape < kShapeCount; ++shape) {
    const double factor = kLeastFactor + kFactorRange * (shape + rng.uniform()) / kShapeCount;
    program.graphs.push_back(reshaped(trace, factor, program.tensors));
  }
  for (std::size_t i = kIterationsOfOwnShape; i < program.iterations.size(); ++i) {
    program.iterations[i] = 1 + static_cast<std::uint32_t>(rng.below(kShapeCount));
  }
}

void add_evaluation(const Trace& trace, Program& program) {
  program.graphs.push_back(evaluation(trace));
  for (std::size_t i = kEvaluationEvery - 1; i < program.iterations.size(); i += kEvaluationEvery) {
    program.iterations[i] = 1;
  }
}

void add_alternative(const Trace& trace, std::uint64_t seed, Program& program) {
  program.graphs.push_back(thinned(trace, seed, program.tensors));
  for (std::size_t i = 1; i < program.iterations.size(); i += 2) {
    program.iterations[i] = 1;
  }
}

// Whoever waits for a step waits for an evaluation or another shape of it, too.
void keep_last_synchronization(const Trace& trace, Program& program) {
  for (std::vector<Kernel>& graph : program.graphs) {
    graph.back().synchronizes = graph.back().synchronizes || trace.kernels.back().synchronizes;
  }
}

}  // namespace

Result<Program> perturb(const Trace& trace, Perturbation kind, std::uint32_t iterations,
                        std::uint64_t seed) {
  if (Status status = validate_trace(trace, "the trace to perturb"); !status) {
    return tl::unexpected(status.error());
  }
  Program program;
  program.tensors = trace.tensors;
  program.graphs.push_back(trace.kernels);
  program.iterations.assign(iterations, 0);
  switch (kind) {
    case Perturbation::kNone:
      break;
    case Perturbation::kShapes:
      add_shapes(trace, seed, program);
      break;
    case Perturbation::kEvaluation:
      add_evaluation(trace, program);
      break;
    case Perturbation::kAlternating:
      add_alternative(trace, seed, program);
      break;
  }
  keep_last_synchronization(trace, program);
  for (std::uint32_t graph = 1; graph < program.graphs.size(); ++graph) {
    const Status status =
        validate_trace(graph_of(program, graph), fmt::format("graph {} of the program", graph));
    if (!status) {
      return tl::unexpected(status.error());
    }
  }
  return program;
}

Trace graph_of(const Program& program, std::uint32_t graph) {
  Trace trace;
  trace.tensors = program.tensors;
  trace.kernels = program.graphs[graph];
  return trace;
}

Result<Perturbation> parse_perturbation(std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& [known, perturbation] : kNames) {
    if (known == name) {
      return perturbation;
    }
    names.push_back(known);
  }
  return make_error(ErrorCode::kInvalidInput, "unknown perturbation '{}'; there are {}", name,
                    fmt::join(names, ", "));
}

}  // namespace spillway
