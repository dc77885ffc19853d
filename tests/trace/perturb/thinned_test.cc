// A network without some layers: which kernels are a layer, and what is read instead of what went.
#include "trace/perturb/thinned.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "trace/example_traces.h"
#include "trace/perturb.h"
#include "trace/perturb/forward_part.h"
#include "trace/perturb/layers.h"
#include "trace/validate.h"

namespace spillway {
namespace {

using testing::ElementsAre;

MlpShape square_mlp() {
  MlpShape shape = small_mlp();
  shape.inputs = shape.width;
  shape.layers = 3;
  return shape;
}

std::vector<std::string> names_in_layer(const Trace& trace, const Layers& layers,
                                        std::uint32_t layer, bool inner) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < trace.kernels.size(); ++k) {
    if (layers.of[k] == layer && layers.inner[k] == inner) {
      names.push_back(trace.kernels[k].name);
    }
  }
  return names;
}

TEST(ForwardPart, EndsWhereMostIsKept) {
  // The activation and the input are alive after "forward", nothing that counts after "backward".
  EXPECT_EQ(forward_kernels(tiny_trace()), 1U);
  Trace trace = tiny_trace();
  trace.tensors[3].bytes = kMiB;
  trace.kernels.push_back({"look", 5, 0, 0, {3}, {}});
  EXPECT_EQ(forward_kernels(trace), 2U);
}

// The weights of this network are 16 times its activations, and their gradients wait for updates.
TEST(ForwardPart, DoesNotCountWhatOnlyUpdatesRead) {
  Trace trace = tiny_trace();
  trace.tensors[3].bytes = kMiB;
  EXPECT_EQ(forward_kernels(trace), 1U);
  trace = generate_mlp({.batch_size = 256, .width = 4096, .training = {}});
  // The gradient of the last activation is larger than the predictions.
  EXPECT_EQ(trace.kernels[forward_kernels(trace) - 1].name, "classifier.backward_input");
}

TEST(Layers, AreTheKernelsAroundWeights) {
  const Trace trace = generate_mlp(square_mlp());
  const Layers layers = find_layers(trace);
  ASSERT_EQ(layers.count, 4U);  // and the classifier
  EXPECT_THAT(names_in_layer(trace, layers, 1, false),
              ElementsAre("layer1.forward", "layer1.backward_input"));
  EXPECT_THAT(names_in_layer(trace, layers, 1, true),
              ElementsAre("layer1.backward_weight", "layer1.backward_bias", "optimizer.update",
                          "optimizer.update"));
}

// One kernel that updates all weights is of no layer, so the gradients that it reads are not inner.
TEST(Layers, LeaveAnUpdateOfAllWeightsAlone) {
  Trace trace = generate_mlp(square_mlp());
  Kernel all{"optimizer.all", 1000, 0, 0, {}, {}};
  while (trace.kernels.back().name == "optimizer.update") {
    const Kernel& one = trace.kernels.back();
    all.reads.insert(all.reads.end(), one.reads.begin(), one.reads.end());
    all.writes.insert(all.writes.end(), one.writes.begin(), one.writes.end());
    trace.kernels.pop_back();
  }
  trace.kernels.push_back(all);
  ASSERT_TRUE(validate_trace(trace, "fused"));
  const Layers layers = find_layers(trace);
  ASSERT_EQ(layers.count, 4U);
  EXPECT_EQ(layers.of.back(), kNoLayer);
  EXPECT_THAT(names_in_layer(trace, layers, 1, false),
              ElementsAre("layer1.forward", "layer1.backward_input"));
  EXPECT_THAT(names_in_layer(trace, layers, 1, true), ElementsAre());
}

// Spelled out: the second of two equal layers goes whole, and its neighbours read across the gap.
TEST(Thinned, ReadsAcrossTheGap) {
  Trace trace;
  const Tensor weight{4096, true, false};
  const Tensor data{8192, false, false};
  trace.tensors = {weight, weight, data, data, data};  // 2: input, 3 and 4: outputs
  trace.kernels = {{"one", 5, 0, 0, {0, 2}, {3}}, {"two", 5, 0, 0, {1, 3}, {4}}};
  for (int i = 0; i < 6; ++i) {
    trace.kernels.push_back({"use", 5, 0, 0, {3, 4}, {}});
  }
  bool second_went = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<Tensor> tensors = trace.tensors;
    const std::vector<Kernel> kernels = thinned(trace, seed, tensors);
    // The first has its input to pass on: that was not used before. So it stays.
    ASSERT_GE(kernels.size(), 7U);
    EXPECT_EQ(kernels[0].name, "one");
    EXPECT_THAT(kernels[0].reads, ElementsAre(0, 5));
    EXPECT_THAT(kernels[0].writes, ElementsAre(6));
    if (kernels.size() == 7) {
      second_went = true;
      EXPECT_THAT(kernels[1].reads, ElementsAre(6));
      EXPECT_EQ(tensors.size(), 7U);
    }
  }
  EXPECT_TRUE(second_went);
}

TEST(Thinned, AnInputThatIsUpdatedInPlaceMayBeMadeAnew) {
  Trace trace;
  // 1 is input, updated in place by the layer of weight 0; later its contents are made anew. 2
  // keeps forward from ending before that.
  trace.tensors = {{4096, true, false}, {8192, false, false}, {16384, false, false}};
  trace.kernels = {{"look", 5, 0, 0, {1}, {}},
                   {"in_place", 5, 0, 0, {0, 1}, {1}},
                   {"use", 5, 0, 0, {1}, {2}},
                   {"make", 5, 0, 0, {}, {1}},
                   {"use", 5, 0, 0, {1, 2}, {}}};
  ASSERT_TRUE(validate_trace(trace, "in place"));
  std::vector<Tensor> tensors = trace.tensors;
  const std::vector<Kernel> kernels = thinned(trace, 0, tensors);
  ASSERT_EQ(kernels.size(), 4U);
  EXPECT_THAT(kernels[1].reads, ElementsAre(3));   // use: the input as it is
  EXPECT_THAT(kernels[2].writes, ElementsAre(5));  // make: another tensor
  EXPECT_THAT(kernels[3].reads, ElementsAre(5, 4));
  Trace thin = trace;
  thin.tensors = tensors;
  thin.kernels = kernels;
  EXPECT_TRUE(validate_trace(thin, "thin"));
}

// What a quarter is drawn from is layers, so whole weights lie idle.
TEST(Thinned, LeavesOutUpToAQuarterAndSomeWeights) {
  TransformerShape deep = small_transformer();
  deep.layers = 6;
  MlpShape mlp = small_mlp();
  mlp.layers = 12;
  for (const Trace& trace : {generate_transformer(deep), generate_mlp(mlp)}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      std::vector<Tensor> tensors = trace.tensors;
      const std::vector<Kernel> kernels = thinned(trace, seed, tensors);
      const std::size_t left_out = trace.kernels.size() - kernels.size();
      EXPECT_LE(left_out, trace.kernels.size() / 4);
      EXPECT_GE(left_out, trace.kernels.size() / 6) << trace.model << ", seed " << seed;
      std::vector<bool> used(tensors.size(), false);
      for (const Kernel& kernel : kernels) {
        for (const auto* list : {&kernel.reads, &kernel.writes}) {
          for (const TensorId id : *list) {
            used[id] = true;
          }
        }
      }
      std::size_t idle = 0;
      for (TensorId id = 0; id < trace.tensors.size(); ++id) {
        EXPECT_TRUE(tensors[id].persistent || !used[id]) << id;
        idle += tensors[id].persistent && !used[id] ? 1U : 0U;
      }
      EXPECT_GT(idle, 0U) << trace.model << ", seed " << seed;
    }
  }
}

// A trace of any form: kernels that read and write what they like within the rules.
Trace random_trace(Rng& rng) {
  Trace trace;
  std::vector<bool> written;
  std::vector<bool> read;
  const auto add = [&](bool persistent) {
    trace.tensors.push_back({(1 + rng.below(3)) * 512, persistent, false});
    written.push_back(false);
    read.push_back(false);
  };
  for (int i = 0; i < 12; ++i) {
    add(i % 3 == 0);
  }
  const std::uint64_t kernels = 4 + rng.below(40);
  for (std::uint64_t k = 0; k < kernels; ++k) {
    Kernel kernel{"k" + std::to_string(k), 10, 0, 0, {}, {}};
    for (TensorId id = 0; id < trace.tensors.size(); ++id) {
      if (trace.tensors[id].scratch) {
        continue;
      }
      if (rng.chance(0.15)) {
        kernel.reads.push_back(id);
      }
      const bool reads = !kernel.reads.empty() && kernel.reads.back() == id;
      const bool may_write = trace.tensors[id].persistent || written[id] || !read[id] || reads;
      if (may_write && rng.chance(0.1)) {
        kernel.writes.push_back(id);
      }
    }
    for (const TensorId id : kernel.reads) {
      read[id] = true;
    }
    for (const TensorId id : kernel.writes) {
      written[id] = true;
    }
    if (rng.chance(0.2)) {
      add(false);
      trace.tensors.back().scratch = true;
      kernel.writes.push_back(static_cast<TensorId>(trace.tensors.size() - 1));
    }
    trace.kernels.push_back(kernel);
    add(rng.chance(0.2));
  }
  return trace;
}

TEST(Thinned, StaysValidWhateverTheTrace) {
  Rng rng(8);
  std::size_t left_out = 0;
  for (int round = 0; round < 2000; ++round) {
    const Trace trace = random_trace(rng);
    ASSERT_TRUE(validate_trace(trace, "random"));
    const std::uint64_t seed = rng.next();
    Trace thin = trace;
    thin.kernels = thinned(trace, seed, thin.tensors);
    const Status status = validate_trace(thin, "thin");
    ASSERT_TRUE(status) << status.error().message << ", round " << round;
    EXPECT_LE(trace.kernels.size() - thin.kernels.size(), trace.kernels.size() / 4);
    left_out += trace.kernels.size() - thin.kernels.size();
    for (const Perturbation kind : {Perturbation::kShapes, Perturbation::kEvaluation}) {
      const Result<Program> program = perturb(trace, kind, 20, seed);
      ASSERT_TRUE(program.has_value()) << program.error().message << ", round " << round;
    }
  }
  EXPECT_GT(left_out, 500U);
}

}  // namespace
}  // namespace spillway
