// AlexNet, VGG-19 and ResNet-152, as generate.h says. Layer: trace.
#include <fmt/format.h>

#include <array>
#include <string>

#include "trace/generate.h"
#include "trace/generate/layers.h"
#include "trace/generate/training_step.h"

namespace spillway {
namespace {

constexpr std::uint64_t kImage = 224;
constexpr std::uint64_t kClasses = 1000;
constexpr Bytes kWorkspaceLimitBytes = 4 * kGiB;  // TensorFlow's

// An image network under construction: the tensor that the next layer reads, and its size.
class Layers {
 public:
  explicit Layers(const ImageShape& shape, const std::string& model)
      : step_(model, shape.batch_size, shape.training),
        batch_(shape.batch_size),
        x_(step_.input(product({batch_, kColors, kImage, kImage, shape.training.element_bytes}))) {}

  [[nodiscard]] TensorId x() const { return x_; }
  void convolve(const std::string& name, std::uint64_t side, std::uint64_t channels,
                std::uint64_t kernel) {
    x_ = convolve_from(x_, name, side_, side, channels_, channels, kernel);
    side_ = side;
    channels_ = channels;
  }
  // Beside the way of x.
  TensorId convolve_from(TensorId from, const std::string& name, std::uint64_t input_side,
                         std::uint64_t side, std::uint64_t input_channels, std::uint64_t channels,
                         std::uint64_t kernel) {
    return spillway::convolve(step_, name, from,
                              {.batch = batch_,
                               .side = side,
                               .input_channels = input_channels,
                               .output_channels = channels,
                               .kernel = kernel,
                               .workspace_limit_bytes = kernel == 3 ? kWorkspaceLimitBytes : 0,
                               .winograd = kernel == 3 && input_side == side});
  }
  void bias(const std::string& name) { bias_in_place(step_, name + ".bias", x_, channels_); }
  void relu(const std::string& name) { activate_in_place(step_, name + ".relu", x_); }
  void add(const std::string& name, TensorId other) { add_in_place(step_, name, x_, other); }
  void pool(const std::string& name, std::uint64_t side) {
    side_ = side;
    x_ = max_pool_by_values(step_, name, x_, elements());
  }
  void average(const std::string& name) {
    side_ = 1;
    x_ = average_pool(step_, name, x_, elements());
  }
  void dense(const std::string& name, std::uint64_t outputs) {
    x_ = linear(step_, name, x_, batch_, product({side_, side_, channels_}), outputs);
    side_ = 1;
    channels_ = outputs;
  }
  Trace finish() {
    dense("classifier", kClasses);
    cross_entropy(step_, x_, batch_);
    return step_.finish();
  }

  [[nodiscard]] std::uint64_t side() const { return side_; }
  [[nodiscard]] std::uint64_t channels() const { return channels_; }

 private:
  [[nodiscard]] std::uint64_t elements() const {
    return product({batch_, side_, side_, channels_});
  }

  TrainingStep step_;
  std::uint64_t batch_;
  TensorId x_;
  std::uint64_t side_ = kImage;
  std::uint64_t channels_ = kColors;
};

void convolution(Layers& layers, const std::string& name, std::uint64_t side,
                 std::uint64_t channels, std::uint64_t kernel) {
  layers.convolve(name, side, channels, kernel);
  layers.bias(name);
  layers.relu(name);
}

void hidden(Layers& layers, const std::string& name) {
  constexpr std::uint64_t kUnits = 4096;
  layers.dense(name, kUnits);
  layers.relu(name);
}

Trace alexnet(const ImageShape& shape) {
  Layers layers(shape, "alexnet");
  convolution(layers, "conv1", 55, 96, 11);
  layers.pool("pool1", 27);
  convolution(layers, "conv2", 27, 256, 5);
  layers.pool("pool2", 13);
  convolution(layers, "conv3", 13, 384, 3);
  convolution(layers, "conv4", 13, 384, 3);
  convolution(layers, "conv5", 13, 256, 3);
  layers.pool("pool5", 6);
  hidden(layers, "fc6");
  hidden(layers, "fc7");
  return layers.finish();
}

Trace vgg19(const ImageShape& shape) {
  struct Stage {
    std::uint64_t channels;
    int convolutions;
  };
  constexpr std::array<Stage, 5> kStages{{{64, 2}, {128, 2}, {256, 4}, {512, 4}, {512, 4}}};
  Layers layers(shape, "vgg19");
  for (std::size_t stage = 0; stage < kStages.size(); ++stage) {
    for (int i = 0; i < kStages[stage].convolutions; ++i) {
      convolution(layers, fmt::format("conv{}_{}", stage + 1, i + 1), layers.side(),
                  kStages[stage].channels, 3);
    }
    layers.pool(fmt::format("pool{}", stage + 1), layers.side() / 2);
  }
  hidden(layers, "fc6");
  hidden(layers, "fc7");
  return layers.finish();
}

// 1x1, 3x3, 1x1 to four times the channels, and the sum with what came in, projected where the size
// changes; the first convolution has the stride.
void bottleneck(Layers& layers, const std::string& name, std::uint64_t side,
                std::uint64_t channels) {
  const TensorId x = layers.x();
  const std::uint64_t input_side = layers.side();
  const std::uint64_t input_channels = layers.channels();
  const std::uint64_t wide = 4 * channels;
  layers.convolve(name + ".conv1", side, channels, 1);
  layers.relu(name + ".conv1");
  layers.convolve(name + ".conv2", side, channels, 3);
  layers.relu(name + ".conv2");
  layers.convolve(name + ".conv3", side, wide, 1);
  const TensorId shortcut =
      input_side == side && input_channels == wide
          ? x
          : layers.convolve_from(x, name + ".shortcut", input_side, side, input_channels, wide, 1);
  layers.add(name + ".add", shortcut);
  layers.relu(name);
}

Trace resnet152(const ImageShape& shape) {
  constexpr std::array<int, 4> kBlocks{3, 8, 36, 3};
  Layers layers(shape, "resnet152");
  layers.convolve("stem", 112, 64, 7);
  layers.relu("stem");
  layers.pool("stem.pool", 56);
  std::uint64_t side = 56;
  std::uint64_t channels = 64;
  for (std::size_t stage = 0; stage < kBlocks.size(); ++stage) {
    for (int block = 0; block < kBlocks[stage]; ++block) {
      bottleneck(layers, fmt::format("stage{}.block{}", stage, block), side, channels);
    }
    side /= 2;
    channels *= 2;
  }
  layers.average("pool");
  return layers.finish();
}

}  // namespace

Trace generate_image_network(const ImageShape& shape) {
  switch (shape.network) {
    case ImageNetwork::kAlexNet:
      return alexnet(shape);
    case ImageNetwork::kVgg19:
      return vgg19(shape);
    case ImageNetwork::kResNet152:
      return resnet152(shape);
  }
  return {};
}

}  // namespace spillway
