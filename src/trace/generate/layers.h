// The layers that generated networks are made of. Each emits its forward kernels, keeps what
// backward needs, and returns its output. Layer: trace, internal to the generators.
#pragma once

#include <cstdint>
#include <string>

#include "trace/generate/training_step.h"

namespace spillway {

inline constexpr std::uint64_t kColors = 3;  // of a pixel of the first layer's input

// y = x W + b for `rows` rows.
TensorId linear(TrainingStep& step, const std::string& name, TensorId x, std::uint64_t rows,
                std::uint64_t inputs, std::uint64_t outputs);

// Element by element. `kOutput` activations (ReLU) keep y for backward, `kInput` ones (GELU) x.
enum class Keeps : std::uint8_t { kInput, kOutput };
TensorId activate(TrainingStep& step, const std::string& name, TensorId x, Keeps keeps);

// The same in place, y for backward, and its gradient in place too. Nothing else may use x before
// it or keep it.
void activate_in_place(TrainingStep& step, const std::string& name, TensorId x);
// x + b for each of `channels`, in place.
void bias_in_place(TrainingStep& step, const std::string& name, TensorId x, std::uint64_t channels);
// a + b, into a; backward launches nothing.
void add_in_place(TrainingStep& step, const std::string& name, TensorId a, TensorId b);

// a + b; backward launches nothing, the gradient of the sum is that of both.
TensorId residual_add(TrainingStep& step, const std::string& name, TensorId a, TensorId b);

struct Convolution {
  std::uint64_t batch;
  std::uint64_t side;  // of the output, pixels
  std::uint64_t input_channels;
  std::uint64_t output_channels;
  std::uint64_t kernel;  // pixels a side
  Bytes workspace_limit_bytes;
  bool winograd = false;  // F(2x2, 3x3): only of 3x3 at stride 1
};
TensorId convolve(TrainingStep& step, const std::string& name, TensorId x,
                  const Convolution& shape);

// Over `channels`, with running statistics; keeps x, mean and deviation.
TensorId batch_norm(TrainingStep& step, const std::string& name, TensorId x,
                    std::uint64_t channels);
// Over rows of `width`; keeps x, mean and deviation of each row.
TensorId layer_norm(TrainingStep& step, const std::string& name, TensorId x, std::uint64_t rows,
                    std::uint64_t width);

// Keeps its input and its output, as cuDNN wants them.
TensorId max_pool_by_values(TrainingStep& step, const std::string& name, TensorId x,
                            std::uint64_t outputs);
// Keeps the index of each maximum (a byte).
TensorId max_pool(TrainingStep& step, const std::string& name, TensorId x, std::uint64_t outputs);
TensorId average_pool(TrainingStep& step, const std::string& name, TensorId x,
                      std::uint64_t outputs);

// Keeps a mask (a byte an element).
TensorId dropout(TrainingStep& step, const std::string& name, TensorId x);

// Rows of a table, chosen by `ids` (8 bytes each).
TensorId embedding(TrainingStep& step, const std::string& name, TensorId ids, std::uint64_t rows,
                   std::uint64_t entries, std::uint64_t width);

// Multi-head attention of x on itself, with projections.
struct Attention {
  std::uint64_t batch;
  std::uint64_t sequence;
  std::uint64_t width;
  std::uint64_t heads;
};
TensorId attention(TrainingStep& step, const std::string& name, TensorId x, const Attention& shape);

// Softmax and cross entropy of `rows` predictions against labels, and the start of backward.
void cross_entropy(TrainingStep& step, TensorId logits, std::uint64_t rows);

}  // namespace spillway
