// Perturbed programs of generated traces, over seeds: what every program owes, and what each kind
// is about.
#include "trace/perturb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trace/example_traces.h"
#include "trace/limits.h"
#include "trace/validate.h"

namespace spillway {
namespace {

constexpr std::uint32_t kIterations = 50;

struct Case {
  Trace trace;
  Perturbation kind;
  std::uint64_t seed;
};

std::vector<Case> cases() {
  std::vector<Trace> traces = generated_traces();
  traces.push_back(synchronizing_trace());
  std::vector<Case> all;
  for (const Trace& trace : traces) {
    for (const Perturbation kind : {Perturbation::kNone, Perturbation::kShapes,
                                    Perturbation::kEvaluation, Perturbation::kAlternating}) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        all.push_back({trace, kind, seed});
      }
    }
  }
  return all;
}

Program program_of(const Trace& trace, Perturbation kind, std::uint64_t seed = 1) {
  const Result<Program> program = perturb(trace, kind, kIterations, seed);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return program.value_or(Program{});
}

std::set<TensorId> tensors_used(const std::vector<Kernel>& kernels) {
  std::set<TensorId> ids;
  for (const Kernel& kernel : kernels) {
    ids.insert(kernel.reads.begin(), kernel.reads.end());
    ids.insert(kernel.writes.begin(), kernel.writes.end());
  }
  return ids;
}

std::vector<std::string> names(const std::vector<Kernel>& kernels) {
  std::vector<std::string> all;
  for (const Kernel& kernel : kernels) {
    all.push_back(kernel.name);
  }
  return all;
}

TEST(Perturb, EveryGraphIsAValidTrace) {
  for (const Case& c : cases()) {
    const Program program = program_of(c.trace, c.kind, c.seed);
    for (std::uint32_t graph = 0; graph < program.graphs.size(); ++graph) {
      const Status status = validate_trace(graph_of(program, graph), c.trace.model);
      EXPECT_TRUE(status) << status.error().message << ", graph " << graph << ", seed " << c.seed;
    }
  }
}

TEST(Perturb, Graph0IsTheTraceAndItsTensorsComeFirst) {
  for (const Case& c : cases()) {
    const Program program = program_of(c.trace, c.kind, c.seed);
    EXPECT_EQ(program.graphs[0], c.trace.kernels);
    ASSERT_GE(program.tensors.size(), c.trace.tensors.size());
    EXPECT_TRUE(
        std::equal(c.trace.tensors.begin(), c.trace.tensors.end(), program.tensors.begin()));
    EXPECT_EQ(program.iterations.size(), kIterations);
    for (const std::uint32_t graph : program.iterations) {
      EXPECT_LT(graph, program.graphs.size());
    }
  }
}

// What is appended is intermediate, used by one graph, and by one at least.
TEST(Perturb, GraphsShareNothingButPersistentTensorsAndTheTracesOwn) {
  for (const Case& c : cases()) {
    const Program program = program_of(c.trace, c.kind, c.seed);
    std::map<TensorId, int> graphs_of;
    for (const std::vector<Kernel>& graph : program.graphs) {
      for (const TensorId id : tensors_used(graph)) {
        ++graphs_of[id];
      }
    }
    for (auto id = static_cast<TensorId>(c.trace.tensors.size()); id < program.tensors.size();
         ++id) {
      EXPECT_FALSE(program.tensors[id].persistent);
      EXPECT_EQ(graphs_of[id], 1) << id;
    }
  }
}

TEST(Perturb, TheSameArgumentsGiveTheSameProgram) {
  for (const Case& c : cases()) {
    const Program first = program_of(c.trace, c.kind, c.seed);
    const Program second = program_of(c.trace, c.kind, c.seed);
    EXPECT_EQ(first.tensors, second.tensors);
    EXPECT_EQ(first.graphs, second.graphs);
    EXPECT_EQ(first.iterations, second.iterations);
  }
  const Trace trace = generate_transformer(small_transformer());
  for (const Perturbation kind : {Perturbation::kShapes, Perturbation::kAlternating}) {
    EXPECT_NE(program_of(trace, kind, 1).graphs, program_of(trace, kind, 2).graphs);
  }
}

TEST(Perturb, EveryGraphEndsAsTheTraceDoes) {
  MlpShape shape = small_mlp();
  for (const bool synchronizes : {false, true}) {
    shape.training.synchronizes = synchronizes;
    for (const Perturbation kind :
         {Perturbation::kShapes, Perturbation::kEvaluation, Perturbation::kAlternating}) {
      for (const std::vector<Kernel>& graph : program_of(generate_mlp(shape), kind).graphs) {
        EXPECT_EQ(graph.back().synchronizes, synchronizes);
        EXPECT_EQ(std::count_if(graph.begin(), graph.end(),
                                [](const Kernel& kernel) { return kernel.synchronizes; }),
                  synchronizes ? 1 : 0);
      }
    }
  }
}

TEST(Perturb, NoneIsTheTraceAgainAndAgain) {
  const Program program = program_of(generate_cnn(small_cnn()), Perturbation::kNone);
  EXPECT_EQ(program.graphs.size(), 1U);
  EXPECT_EQ(program.iterations, std::vector<std::uint32_t>(kIterations, 0));
}

TEST(Perturb, ShapesScaleIntermediatesAndTheirKernels) {
  for (const Trace& trace : generated_traces()) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Program program = program_of(trace, Perturbation::kShapes, seed);
      ASSERT_EQ(program.graphs.size(), 6U);
      for (std::uint32_t shape = 1; shape < 6; ++shape) {
        const std::vector<Kernel>& kernels = program.graphs[shape];
        ASSERT_EQ(names(kernels), names(trace.kernels));
        for (std::size_t k = 0; k < kernels.size(); ++k) {
          ASSERT_EQ(kernels[k].reads.size(), trace.kernels[k].reads.size());
          for (std::size_t i = 0; i < kernels[k].reads.size(); ++i) {
            const TensorId base = trace.kernels[k].reads[i];
            const Tensor& before = trace.tensors[base];
            const Tensor& after = program.tensors[kernels[k].reads[i]];
            if (before.persistent) {
              EXPECT_EQ(kernels[k].reads[i], base);
              continue;
            }
            EXPECT_EQ(after.bytes % 512, 0U);
            EXPECT_GE(static_cast<double>(after.bytes), 0.6 * static_cast<double>(before.bytes));
            EXPECT_LT(static_cast<double>(after.bytes),
                      1.4 * static_cast<double>(before.bytes) + 513);
          }
          const double ratio = static_cast<double>(kernels[k].duration_ns) /
                               static_cast<double>(trace.kernels[k].duration_ns);
          EXPECT_GT(ratio, 0.59);
          EXPECT_LT(ratio, 1.41);
        }
      }
    }
  }
}

TEST(Perturb, ShapesComeAfterThreeIterationsAndComeAgain) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Program program = program_of(tiny_trace(), Perturbation::kShapes, seed);
    std::map<std::uint32_t, int> runs;
    for (std::size_t i = 0; i < program.iterations.size(); ++i) {
      EXPECT_EQ(program.iterations[i] == 0, i < 3) << i;
      ++runs[program.iterations[i]];
    }
    EXPECT_EQ(runs.size(), 6U) << seed;
    std::set<TimeNs> durations_ns;
    for (const std::vector<Kernel>& graph : program.graphs) {
      durations_ns.insert(graph[1].duration_ns);
    }
    EXPECT_EQ(durations_ns.size(), 6U);
  }
}

// Kernels that use persistent tensors alone do not depend on the shape.
TEST(Perturb, ShapesLeaveOtherKernelsAlone) {
  Trace trace = tiny_trace();
  trace.kernels.push_back({"decay", 1000, 5, 7, {0}, {0}});
  const Program program = program_of(trace, Perturbation::kShapes);
  for (std::uint32_t shape = 1; shape < 6; ++shape) {
    EXPECT_EQ(program.graphs[shape].back(), trace.kernels.back());
    EXPECT_NE(program.graphs[shape][0].all_fault_ns, trace.kernels[0].all_fault_ns);
    EXPECT_EQ(program.graphs[shape][1].all_fault_ns, 0);
  }
}

TEST(Perturb, EveryTenthIterationIsAnEvaluation) {
  for (const Trace& trace : generated_traces()) {
    const Program program = program_of(trace, Perturbation::kEvaluation);
    EXPECT_EQ(program.tensors, trace.tensors);
    ASSERT_EQ(program.graphs.size(), 2U);
    EXPECT_EQ(std::count(program.iterations.begin(), program.iterations.end(), 1U),
              kIterations / 10);
    for (std::size_t i = 0; i < program.iterations.size(); ++i) {
      EXPECT_EQ(program.iterations[i] == 1, i % 10 == 9) << i;
    }
  }
}

TEST(Perturb, AnEvaluationIsForwardWithoutWritesOfPersistentTensors) {
  for (const Trace& trace : generated_traces()) {
    const Program program = program_of(trace, Perturbation::kEvaluation);
    const std::vector<Kernel>& forward = program.graphs[1];
    ASSERT_LT(forward.size(), trace.kernels.size());
    for (std::size_t k = 0; k < forward.size(); ++k) {
      Kernel expected = trace.kernels[k];
      std::erase_if(expected.writes, [&](TensorId id) { return trace.tensors[id].persistent; });
      EXPECT_EQ(forward[k], expected);
      EXPECT_THAT(forward[k].name, testing::Not(testing::HasSubstr("optimizer")));
    }
    // The peak is about where the loss is: the first gradients may be larger than what is freed.
    std::size_t backward = 0;
    for (const Kernel& kernel : forward) {
      backward += kernel.name.find("backward") != std::string::npos ? 1U : 0U;
    }
    EXPECT_LE(backward, 5U) << trace.model;
    const auto loss = std::find_if(trace.kernels.begin(), trace.kernels.end(),
                                   [](const Kernel& k) { return k.name == "loss.forward"; });
    EXPECT_GE(forward.size() + 3, static_cast<std::size_t>(loss - trace.kernels.begin()))
        << trace.model;
  }
}

TEST(Perturb, TheAlternativeRunsEverySecondIteration) {
  for (const Trace& trace : generated_traces()) {
    const Program program = program_of(trace, Perturbation::kAlternating);
    ASSERT_EQ(program.graphs.size(), 2U);
    for (std::size_t i = 0; i < program.iterations.size(); ++i) {
      EXPECT_EQ(program.iterations[i], i % 2) << i;
    }
  }
}

TEST(Perturb, RefusesWhatIsNoTraceAndWhatLeavesItsLimits) {
  const Result<Program> empty = perturb({}, Perturbation::kNone, 1, 0);
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().message,
            "the trace to perturb: kernels: none; an iteration has at least one");
  Trace large = tiny_trace();
  large.tensors[2].bytes = kMaxTensorBytes;
  EXPECT_TRUE(perturb(large, Perturbation::kEvaluation, 1, 0).has_value());
  const Result<Program> larger = perturb(large, Perturbation::kShapes, 1, 0);
  ASSERT_FALSE(larger.has_value());
  EXPECT_EQ(larger.error().code, ErrorCode::kInvalidInput);
  EXPECT_THAT(larger.error().message, testing::StartsWith("graph 1 of the program: tensors["));
}

TEST(ParsePerturbation, KnowsItsNamesAndListsThem) {
  EXPECT_EQ(parse_perturbation("none").value(), Perturbation::kNone);
  EXPECT_EQ(parse_perturbation("shapes").value(), Perturbation::kShapes);
  EXPECT_EQ(parse_perturbation("evaluation").value(), Perturbation::kEvaluation);
  EXPECT_EQ(parse_perturbation("alternating").value(), Perturbation::kAlternating);
  const Result<Perturbation> wrong = parse_perturbation("shape");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(wrong.error().message,
            "unknown perturbation 'shape'; there are none, shapes, evaluation, alternating");
}

}  // namespace
}  // namespace spillway
