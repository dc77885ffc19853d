// A step's numbers as the vectors have them: rounded to single precision at the point where PyTorch
// rounds them, and what follows from them. Layer: optimizer.
#pragma once

#include "optimizer/update.h"

namespace spillway::optimizer {

enum class Decay : std::uint8_t { kNone, kIntoGradient, kDecoupled };

struct Numbers {
  Decay decay = Decay::kNone;
  bool scaled = false;      // gradients are divided by gradient_scale
  bool first_step = false;  // SGD: the buffer is made
  bool has_buffer = false;  // SGD with momentum
  float gradient_scale = 1;
  float sign = 1;          // -1 to maximize
  float decay_factor = 0;  // of the parameter: into the gradient, or what is left of itself
  float lerp_weight = 0;   // Adam: 1 - beta1
  float beta2 = 0;
  float square_weight = 0;  // Adam: 1 - beta2
  float root_divisor = 1;   // Adam: the root of 1 - beta2^step
  float epsilon = 0;
  float negative_rate = 0;  // what the direction is multiplied by
  float momentum = 0;
  float gradient_weight = 1;  // SGD: 1 - dampening
};

[[nodiscard]] Numbers numbers_of(const Options& options, const Step& step);

}  // namespace spillway::optimizer
