// The networks: which layers, in which order, of which size. Layer: trace.
#include <string>

#include "trace/generate.h"
#include "trace/generate/layers.h"
#include "trace/generate/training_step.h"

namespace spillway {
namespace {

TensorId conv_norm(TrainingStep& step, const std::string& name, TensorId x,
                   const Convolution& shape) {
  const TensorId y = convolve(step, name, x, shape);
  return batch_norm(step, name + ".norm", y, shape.output_channels);
}

// The next side after a stride of 2.
std::uint64_t half(std::uint64_t side) { return side / 2 + side % 2; }

struct Bottleneck {
  std::uint64_t batch;
  std::uint64_t input_side;
  std::uint64_t side;
  std::uint64_t input_channels;
  std::uint64_t channels;
  Bytes workspace_limit_bytes;
};

// 1x1 down, 3x3, 1x1 up to four times the channels, and a shortcut that is projected where the size
// changes.
TensorId bottleneck(TrainingStep& step, const std::string& name, TensorId x,
                    const Bottleneck& shape) {
  const std::uint64_t wide = product({shape.channels, 4});
  const auto conv = [&](std::uint64_t side, std::uint64_t from, std::uint64_t to,
                        std::uint64_t kernel) {
    return Convolution{shape.batch, side, from, to, kernel, shape.workspace_limit_bytes};
  };
  TensorId y = conv_norm(step, name + ".conv1", x,
                         conv(shape.input_side, shape.input_channels, shape.channels, 1));
  y = activate(step, name + ".relu1", y, Keeps::kOutput);
  y = conv_norm(step, name + ".conv2", y, conv(shape.side, shape.channels, shape.channels, 3));
  y = activate(step, name + ".relu2", y, Keeps::kOutput);
  y = conv_norm(step, name + ".conv3", y, conv(shape.side, shape.channels, wide, 1));
  TensorId shortcut = x;
  if (shape.input_channels != wide || shape.input_side != shape.side) {
    shortcut =
        conv_norm(step, name + ".shortcut", x, conv(shape.side, shape.input_channels, wide, 1));
  }
  y = residual_add(step, name + ".add", y, shortcut);
  return activate(step, name + ".relu3", y, Keeps::kOutput);
}

}  // namespace

Trace generate_mlp(const MlpShape& shape) {
  TrainingStep step("mlp", shape.batch_size, shape.training);
  const std::uint64_t rows = shape.batch_size;
  TensorId x = step.input(product({rows, shape.inputs, shape.training.element_bytes}));
  std::uint64_t width = shape.inputs;
  for (std::uint64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string name = fmt::format("layer{}", layer);
    x = linear(step, name, x, rows, width, shape.width);
    x = activate(step, name + ".relu", x, Keeps::kOutput);
    width = shape.width;
  }
  cross_entropy(step, linear(step, "classifier", x, rows, width, shape.classes), rows);
  return step.finish();
}

Trace generate_cnn(const CnnShape& shape) {
  TrainingStep step("cnn", shape.batch_size, shape.training);
  const std::uint64_t batch = shape.batch_size;
  TensorId x =
      step.input(product({batch, kColors, shape.image, shape.image, shape.training.element_bytes}));
  std::uint64_t side = half(shape.image);
  x = conv_norm(step, "stem", x,
                {batch, side, kColors, shape.channels, 7, shape.workspace_limit_bytes});
  x = activate(step, "stem.relu", x, Keeps::kOutput);
  side = half(side);
  x = max_pool(step, "stem.pool", x, product({batch, side, side, shape.channels}));

  std::uint64_t input_channels = shape.channels;
  std::uint64_t channels = shape.channels;
  for (std::uint64_t stage = 0; stage < shape.stages; ++stage) {
    for (std::uint64_t block = 0; block < shape.blocks; ++block) {
      const std::uint64_t input_side = side;
      if (stage > 0 && block == 0) {
        channels = product({channels, 2});
        side = half(side);
      }
      x = bottleneck(
          step, fmt::format("stage{}.block{}", stage, block), x,
          {batch, input_side, side, input_channels, channels, shape.workspace_limit_bytes});
      input_channels = product({channels, 4});
    }
  }
  x = average_pool(step, "pool", x, product({batch, input_channels}));
  cross_entropy(step, linear(step, "classifier", x, batch, input_channels, shape.classes), batch);
  return step.finish();
}

Trace generate_transformer(const TransformerShape& shape) {
  constexpr Bytes kTokenBytes = 8;
  TrainingStep step("transformer", shape.batch_size, shape.training);
  const std::uint64_t rows = product({shape.batch_size, shape.sequence});
  const TensorId tokens = step.input(product({rows, kTokenBytes}));
  const TensorId positions = step.input(product({shape.sequence, kTokenBytes}));
  const TensorId words =
      embedding(step, "embedding.word", tokens, rows, shape.vocabulary, shape.width);
  const TensorId places =
      embedding(step, "embedding.position", positions, rows, shape.sequence, shape.width);
  TensorId x = residual_add(step, "embedding.add", words, places);
  x = layer_norm(step, "embedding.norm", x, rows, shape.width);
  x = dropout(step, "embedding.dropout", x);
  for (std::uint64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string name = fmt::format("layer{}", layer);
    const auto join = [&](const std::string& part, TensorId branch) {
      const TensorId kept = dropout(step, name + part + ".dropout", branch);
      const TensorId sum = residual_add(step, name + part + ".add", kept, x);
      return layer_norm(step, name + part + ".norm", sum, rows, shape.width);
    };
    x = join(".attention", attention(step, name + ".attention", x,
                                     {shape.batch_size, shape.sequence, shape.width, shape.heads}));
    TensorId hidden = linear(step, name + ".expand", x, rows, shape.width, shape.feed_forward);
    hidden = activate(step, name + ".gelu", hidden, Keeps::kInput);
    x = join(".feed_forward",
             linear(step, name + ".contract", hidden, rows, shape.feed_forward, shape.width));
  }
  cross_entropy(step, linear(step, "prediction", x, rows, shape.width, shape.vocabulary), rows);
  return step.finish();
}

}  // namespace spillway
