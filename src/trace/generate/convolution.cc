// Convolutions, with the work space of a library that unfolds its input, and pooling.
// Layer: trace.
#include <algorithm>

#include "trace/generate/layers.h"

namespace spillway {
namespace {

// F(2x2, 3x3) multiplies 16 values where 36 are multiplied directly. Where there are many channels
// to multiply, what is transformed is written to memory (generate.h).
constexpr double kWinograd = 36.0 / 16;
constexpr std::uint64_t kChannelsInMemory = 384;

// Input and output of a convolution at stride 1.
double transformed_bytes(const Convolution& shape) {
  constexpr double kElementBytes = 4;
  return static_cast<double>(product({shape.batch, shape.side, shape.side})) *
         static_cast<double>(shape.input_channels + shape.output_channels) * kElementBytes;
}

// A 1x1 convolution is a matrix product as it stands; a larger one unfolds its input into columns,
// as much of it at a time as the limit lets it.
std::vector<TensorId> with_workspace(TrainingStep& step, std::vector<TensorId> writes,
                                     const Convolution& shape, double column_elements) {
  if (shape.winograd) {
    const auto bytes = static_cast<Bytes>(kWinograd * transformed_bytes(shape));
    const std::uint64_t channels = std::min(shape.input_channels, shape.output_channels);
    if (channels >= kChannelsInMemory && bytes <= shape.workspace_limit_bytes) {
      writes.push_back(step.workspace(bytes));
    }
  } else if (shape.kernel > 1) {
    constexpr double kElementBytes = 4;  // columns are held in FP32
    const double wanted = column_elements * kElementBytes;
    const Bytes bytes = wanted >= static_cast<double>(shape.workspace_limit_bytes)
                            ? shape.workspace_limit_bytes
                            : static_cast<Bytes>(wanted);
    if (bytes > 0) {
      writes.push_back(step.workspace(bytes));
    }
  }
  return writes;
}

void pool_backward(TrainingStep& step, const std::string& name, TensorId x,
                   const std::vector<TensorId>& kept, TensorId y) {
  step.on_backward([=](TrainingStep& s) {
    const TensorId dx = s.new_gradient(x);
    std::vector<TensorId> reads{s.gradient(y)};
    reads.insert(reads.end(), kept.begin(), kept.end());
    s.emit(name + ".backward", std::move(reads), {dx}, s.elements(x));
    s.add_gradient(x, dx);
  });
}

}  // namespace

TensorId convolve(TrainingStep& step, const std::string& name, TensorId x,
                  const Convolution& shape) {
  const std::uint64_t taps = product({shape.input_channels, shape.kernel, shape.kernel});
  const std::uint64_t pixels = product({shape.batch, shape.side, shape.side});
  const TensorId weight = step.parameter(product({taps, shape.output_channels}));
  const TensorId y = step.activation(product({pixels, shape.output_channels}));
  const double columns = static_cast<double>(taps) * static_cast<double>(pixels);
  const double flops =
      2 * columns * static_cast<double>(shape.output_channels) / (shape.winograd ? kWinograd : 1);
  step.emit(name + ".forward", {x, weight}, with_workspace(step, {y}, shape, columns), flops);
  step.on_backward([=](TrainingStep& s) {
    const TensorId dy = s.gradient(y);
    if (s.needs_gradient(x)) {
      const TensorId dx = s.new_gradient(x);
      s.emit(name + ".backward_input", {dy, weight}, with_workspace(s, {dx}, shape, columns),
             flops);
      s.add_gradient(x, dx);
    }
    const TensorId dweight = s.new_gradient(weight);
    s.emit(name + ".backward_weight", {x, dy}, with_workspace(s, {dweight}, shape, columns), flops);
    s.add_gradient(weight, dweight);
  });
  return y;
}

TensorId max_pool_by_values(TrainingStep& step, const std::string& name, TensorId x,
                            std::uint64_t outputs) {
  const TensorId y = step.activation(outputs);
  step.emit(name + ".forward", {x}, {y}, step.elements(x));
  pool_backward(step, name, x, {x, y}, y);
  return y;
}

TensorId max_pool(TrainingStep& step, const std::string& name, TensorId x, std::uint64_t outputs) {
  const TensorId y = step.activation(outputs);
  const TensorId indices = step.intermediate_bytes(outputs);
  step.emit(name + ".forward", {x}, {y, indices}, step.elements(x));
  pool_backward(step, name, x, {indices}, y);
  return y;
}

TensorId average_pool(TrainingStep& step, const std::string& name, TensorId x,
                      std::uint64_t outputs) {
  const TensorId y = step.activation(outputs);
  step.emit(name + ".forward", {x}, {y}, step.elements(x));
  pool_backward(step, name, x, {}, y);
  return y;
}

}  // namespace spillway
