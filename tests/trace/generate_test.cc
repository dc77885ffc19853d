// Generated training steps: well formed, of the structure and size that the shape asks for.
#include "trace/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "trace/example_traces.h"
#include "trace/generate/training_step.h"
#include "trace/validate.h"
#include "trace/visitor.h"

namespace spillway {
namespace {

std::size_t kernels_named(const Trace& trace, const std::string& part) {
  return static_cast<std::size_t>(
      std::count_if(trace.kernels.begin(), trace.kernels.end(),
                    [&](const Kernel& k) { return k.name.find(part) != std::string::npos; }));
}

std::vector<std::string> names(const Trace& trace) {
  std::vector<std::string> all;
  all.reserve(trace.kernels.size());
  for (const Kernel& kernel : trace.kernels) {
    all.push_back(kernel.name);
  }
  return all;
}

Bytes persistent_bytes(const Trace& trace) {
  Bytes bytes = 0;
  for (const Tensor& tensor : trace.tensors) {
    bytes += tensor.persistent ? tensor.bytes : 0;
  }
  return bytes;
}

double seconds(const Trace& trace) {
  TimeNs sum = 0;
  for (const Kernel& kernel : trace.kernels) {
    sum += kernel.duration_ns;
  }
  return to_seconds(sum);
}

TEST(Generate, TracesAreValidAndTheSameEveryTime) {
  const std::vector<Trace> first = generated_traces();
  EXPECT_EQ(first, generated_traces());
  for (const Trace& trace : first) {
    const Status status = validate_trace(trace, trace.model);
    EXPECT_TRUE(status) << status.error().message;
  }
  for (const Trace& trace : {generate_mlp({}), generate_cnn({}), generate_transformer({})}) {
    const Status status = validate_trace(trace, trace.model);
    EXPECT_TRUE(status) << status.error().message;
  }
}

// Every tensor has a use; intermediate ones that are written are read again, so that reading the
// trace back from kernel-trace/1 marks the same scratch.
TEST(Generate, NoTensorIsIdle) {
  for (const Trace& trace : generated_traces()) {
    std::set<TensorId> used;
    for (const Kernel& kernel : trace.kernels) {
      used.insert(kernel.reads.begin(), kernel.reads.end());
      used.insert(kernel.writes.begin(), kernel.writes.end());
    }
    EXPECT_EQ(used.size(), trace.tensors.size()) << trace.model;
    Trace marked = trace;
    mark_scratch(marked);
    EXPECT_EQ(marked, trace) << trace.model;
  }
}

// One hidden layer, spelled out.
TEST(Generate, MlpRunsForwardLossBackwardAndUpdates) {
  MlpShape shape = small_mlp();
  shape.layers = 1;
  const Trace trace = generate_mlp(shape);
  EXPECT_EQ(names(trace),
            (std::vector<std::string>{
                "layer0.forward", "layer0.relu.forward", "classifier.forward", "softmax.forward",
                "loss.forward", "loss.backward", "classifier.backward_input",
                "classifier.backward_weight", "classifier.backward_bias", "layer0.relu.backward",
                "layer0.backward_weight", "layer0.backward_bias", "optimizer.update",
                "optimizer.update", "optimizer.update", "optimizer.update"}));
  // Weights and biases, each with two moments of Adam.
  EXPECT_EQ(persistent_bytes(trace), 3 * 4 * (100 * 64 + 64 + 64 * 10 + 10));
  // ReLU keeps its output: written by the second kernel, read by the classifier both ways and by
  // its own backward.
  const TensorId hidden = trace.kernels[1].writes.at(0);
  EXPECT_EQ(trace.tensors[hidden].bytes, 32 * 64 * 4);
  for (const std::size_t reader : {2U, 7U, 9U}) {
    const std::vector<TensorId>& reads = trace.kernels[reader].reads;
    EXPECT_NE(std::find(reads.begin(), reads.end(), hidden), reads.end()) << reader;
  }
}

TEST(Generate, TimesFollowFlopsOrBytes) {
  MlpShape shape = small_mlp();
  shape.training.device.flops_per_s = 1e9;
  shape.training.device.bytes_per_s = 1e12;
  shape.training.device.launch_ns = 7;
  // 2 * 32 * 100 * 64 operations at one a nanosecond.
  EXPECT_EQ(generate_mlp(shape).kernels[0].duration_ns, 7 + 409'600);
  shape.training.device.flops_per_s = 1e15;
  shape.training.device.bytes_per_s = 1e9;
  // Input, weight, bias and output, at one byte a nanosecond.
  EXPECT_EQ(generate_mlp(shape).kernels[0].duration_ns,
            7 + 4 * (32 * 100 + 100 * 64 + 64 + 32 * 64));
}

TEST(Generate, AStepEndsWithASynchronizationPointWhereAskedFor) {
  MlpShape shape = small_mlp();
  Trace expected = generate_mlp(shape);
  for (const Kernel& kernel : expected.kernels) {
    EXPECT_FALSE(kernel.synchronizes);
  }
  shape.training.synchronizes = true;
  expected.kernels.back().synchronizes = true;
  EXPECT_EQ(generate_mlp(shape), expected);
}

TEST(Generate, OptimizersDifferInState) {
  MlpShape shape = small_mlp();
  std::vector<Bytes> sizes;
  for (const Optimizer optimizer : {Optimizer::kSgd, Optimizer::kMomentum, Optimizer::kAdam}) {
    shape.training.optimizer = optimizer;
    sizes.push_back(persistent_bytes(generate_mlp(shape)));
  }
  EXPECT_EQ(sizes[1], 2 * sizes[0]);
  EXPECT_EQ(sizes[2], 3 * sizes[0]);
}

// ResNet-50: 25.6 million parameters, 53 convolutions, 4.1 GMAC forward for an image of 224 pixels.
TEST(Generate, CnnHasTheSizeOfResNet50) {
  CnnShape shape;
  shape.training.optimizer = Optimizer::kSgd;
  const Trace resnet = generate_cnn(shape);
  EXPECT_EQ(kernels_named(resnet, ".norm.forward"), 4 * 3 * 3 + 4 + 1);
  // 3, 4, 6 and 3 blocks give 25.6 million; 3 in every stage give fewer.
  EXPECT_NEAR(static_cast<double>(persistent_bytes(resnet)) / 4e6, 21.0, 1.5);
}

TEST(Generate, CnnWorkspaceIsScratchWithinItsLimit) {
  CnnShape shape = small_cnn();
  shape.workspace_limit_bytes = 10'000;
  std::size_t scratch = 0;
  const Trace trace = generate_cnn(shape);
  for (const Tensor& tensor : trace.tensors) {
    scratch += tensor.scratch ? 1 : 0;
    EXPECT_TRUE(!tensor.scratch || tensor.bytes <= 10'000);
  }
  // The stem has no gradient of its input; four 3x3 convolutions have two backward kernels.
  EXPECT_EQ(scratch, 2 + 4 * 3);
}

// The parameters that the papers' tables give, here with Adam's two moments: AlexNet's one tower
// 62,378,344; VGG-19 143,667,240; ResNet-152 60,192,808 less two for each of 75,712 channels that
// would be normalized.
TEST(Generate, ImageNetworksHaveTheirSizes) {
  const auto parameters = [](ImageNetwork network) {
    ImageShape shape;
    shape.network = network;
    shape.batch_size = 2;
    const Trace trace = generate_image_network(shape);
    const Status status = validate_trace(trace, trace.model);
    EXPECT_TRUE(status) << status.error().message;
    return persistent_bytes(trace) / 4 / 3;
  };
  EXPECT_EQ(parameters(ImageNetwork::kAlexNet), 62'378'344U);
  EXPECT_EQ(parameters(ImageNetwork::kVgg19), 143'667'240U);
  EXPECT_EQ(parameters(ImageNetwork::kResNet152), 60'192'808U - 2 * 75'712U);
}

// VGG-19's 16 convolutions keep one tensor each: what bias and ReLU write is what they read.
TEST(Generate, ImageNetworksWorkInPlace) {
  const Trace trace = generate_image_network({.network = ImageNetwork::kVgg19, .batch_size = 1});
  std::size_t in_place = 0;
  for (const Kernel& kernel : trace.kernels) {
    if (kernel.name.ends_with(".relu.forward") || kernel.name.ends_with(".bias.forward")) {
      EXPECT_EQ(kernel.writes, std::vector<TensorId>{kernel.reads[0]}) << kernel.name;
      ++in_place;
    }
  }
  EXPECT_EQ(in_place, 2 * 16U + 2);  // two hidden layers have a ReLU
}

// AlexNet's fourth convolution, 384 channels to 384 at 13 pixels a side: 2.25 times 768 channels of
// 169 numbers for each image. The third has 256 on one side, and none.
TEST(Generate, WorkSpaceOfManyChannels) {
  const Trace trace = generate_image_network({.network = ImageNetwork::kAlexNet, .batch_size = 16});
  std::vector<Bytes> scratch;
  for (const Kernel& kernel : trace.kernels) {
    for (const TensorId id : kernel.writes) {
      if (trace.tensors[id].scratch) {
        EXPECT_TRUE(kernel.name.starts_with("conv4.")) << kernel.name;
        scratch.push_back(trace.tensors[id].bytes);
      }
    }
  }
  EXPECT_EQ(scratch, std::vector<Bytes>(3, 16 * 768 * 169 * 4 * 9 / 4));
}

// BERT-base has 110 million parameters, 85 of them in its layers; a step costs 6 FLOPs for each
// parameter that multiplies, and token, plus attention.
TEST(Generate, TransformerHasTheSizeOfBertBase) {
  TransformerShape shape;
  shape.training.optimizer = Optimizer::kSgd;
  shape.training.device.launch_ns = 0;
  shape.training.device.bytes_per_s = 1e18;
  const Trace bert = generate_transformer(shape);
  const double parameters = static_cast<double>(persistent_bytes(bert)) / 4;
  // Its prediction does not share the word table: 23.4 million more.
  EXPECT_NEAR(parameters / 1e6, 85.1 + 2 * 23.4 + 0.4, 1.0);
  const double tokens = 32 * 512;
  const double multiplying = 85.0e6 + 23.4e6;
  const double attention = 3.0 * 12 * 4 * tokens * 512 * 768;
  const double expected_s = (6 * multiplying * tokens + attention) / 13.65e12;
  EXPECT_NEAR(seconds(bert), expected_s, 0.02 * expected_s);
}

// The sum before a block is used by the block and by the residual around it: two gradients meet.
TEST(Generate, ResidualGradientsAreSummed) {
  TransformerShape shape = small_transformer();
  shape.layers = 3;
  // In each layer query, key and value meet (2), then the residual (1), then feed-forward's (1).
  EXPECT_EQ(kernels_named(generate_transformer(shape), "gradient.add"), 3 * 4);
}

TEST(Generate, SizesGrowWithTheShape) {
  TransformerShape shape = small_transformer();
  const Trace small = generate_transformer(shape);
  shape.layers *= 2;
  const Trace deep = generate_transformer(shape);
  EXPECT_GT(deep.kernels.size(), small.kernels.size() * 3 / 2);
  shape.batch_size *= 10;
  const Trace wide = generate_transformer(shape);
  EXPECT_EQ(wide.kernels.size(), deep.kernels.size());
  EXPECT_EQ(persistent_bytes(wide), persistent_bytes(deep));
}

TEST(Generate, AbsurdShapesFailValidationInsteadOfOverflowing) {
  MlpShape mlp = small_mlp();
  mlp.width = 1ULL << 40U;
  EXPECT_FALSE(validate_trace(generate_mlp(mlp), "mlp"));
  CnnShape cnn = small_cnn();
  cnn.channels = 0;
  EXPECT_FALSE(validate_trace(generate_cnn(cnn), "cnn"));
  TransformerShape transformer = small_transformer();
  transformer.sequence = 1ULL << 62U;
  EXPECT_FALSE(validate_trace(generate_transformer(transformer), "transformer"));
}

TEST(Product, SaturatesUnlessAFactorIsZero) {
  EXPECT_EQ(product({3, 5, 7}), 105U);
  EXPECT_EQ(product({1ULL << 40U, 1ULL << 40U}), 1ULL << 62U);
  EXPECT_EQ(product({1ULL << 40U, 1ULL << 40U, 0}), 0U);
  EXPECT_EQ(product({~0ULL}), 1ULL << 62U);
}

}  // namespace
}  // namespace spillway
