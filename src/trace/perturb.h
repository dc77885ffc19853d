// Programs whose iterations are not all alike, made from a trace: where what was learned or planned
// from one iteration is wrong in the next. Layer: trace.
//
// Real programs do this: batches whose samples have other lengths, an evaluation between training
// steps, two networks in turn (a GAN), layers that are left out at random. A perturbed program is
// several graphs over one set of tensors, and the order in which they run. Weights and optimizer
// state are shared by all graphs; a graph that does not run the trace's own intermediate tensors
// has others of its own.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "trace/trace.h"

namespace spillway {

// A program of several graphs over one set of tensors: what is launched from one iteration to the
// next. A persistent tensor that a graph does not use stays allocated and idle meanwhile.
struct Program {
  std::vector<Tensor> tensors;              // of all graphs
  std::vector<std::vector<Kernel>> graphs;  // graph 0 is the trace's own iteration, tensors and all
  std::vector<std::uint32_t> iterations;    // which graph each iteration runs
};

enum class Perturbation : std::uint8_t {
  // Every iteration is the trace's.
  kNone,
  // After three iterations of the trace's own shape, every iteration draws one of five others, each
  // with a factor from [0.6, 1.4]. Intermediate tensors (scratch, inputs and gradients too) have
  // their size times the factor, rounded up to 512 bytes, and kernels that use one their times.
  kShapes,
  // Every tenth iteration is an evaluation: the forward part of the trace alone, with the trace's
  // own tensors, none of which outlives its last use there. It writes no persistent tensor.
  kEvaluation,
  // The trace and another network in turn: the same one without layers that were drawn, at most a
  // quarter of the kernels. What read a tensor that is no longer made reads the last one of equal
  // size that was.
  kAlternating,
};

// The forward part of a trace is its kernels up to the one after which intermediate tensors that
// are still to be used hold most bytes, the first one where there are several: backward consumes
// what forward keeps. Tensors that only kernels which write persistent ones read do not count:
// gradients of weights may wait for their update and outweigh everything else.
//
// Every graph is a valid trace over the tensors (graph_of). The trace's tensors come first, with
// their ids. A graph ends with a synchronization point if the trace does. `iterations` may be 0.
// The same arguments give the same program, everywhere.
//
// kInvalidInput where the trace is not valid, or the perturbed one leaves the limits of a trace
// (trace/limits.h).
[[nodiscard]] Result<Program> perturb(const Trace& trace, Perturbation kind,
                                      std::uint32_t iterations, std::uint64_t seed);

// One graph as a trace over all tensors, of which it uses some; the header's fields are empty.
// `graph` must be below program.graphs.size().
[[nodiscard]] Trace graph_of(const Program& program, std::uint32_t graph);

// "none", "shapes", "evaluation", "alternating". kInvalidInput, with that list, on anything else.
[[nodiscard]] Result<Perturbation> parse_perturbation(std::string_view name);

}  // namespace spillway
