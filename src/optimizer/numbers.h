// A step's numbers as the vectors have them: rounded to single precision at the point where PyTorch
// rounds them, and what follows from them. Layer: optimizer.
#pragma once

#include "optimizer/update.h"

namespace spillway::optimizer {

// The orders in which PyTorch's kernels round.
enum class Form : std::uint8_t {
  kLoop,         // an operator at a time
  kLoopTail,     // bfloat16, and amsgrad: what its vectors leave of a thread's part
  kFusedVector,  // the vectors of the fused kernel
  kFusedTail,    // the elements that are left when its vectors are full
  kLoopCuda,
  kForeachCuda,
  kFusedCuda,
};

enum class Decay : std::uint8_t {
  kNone,
  kIntoGradient,  // its product with the factor is added to the gradient
  kLessGradient,  // the gradient is subtracted from that product: maximize, where NaN keep their
                  // sign
  kDecoupled,     // what is left of the parameter is its product with the factor
  kSubtracted,    // that product is added to the parameter
};

struct Numbers {
  Decay decay = Decay::kNone;
  bool scaled = false;      // gradients are divided by gradient_scale
  bool first_step = false;  // SGD: the buffer is made
  float gradient_scale = 1;
  float sign = 1;          // -1 to maximize
  float decay_factor = 0;  // of the parameter: into the gradient, or what is left of itself
  float beta1 = 0;
  float lerp_weight = 0;  // Adam: 1 - beta1
  float beta2 = 0;
  float square_weight = 0;  // Adam: 1 - beta2
  float root_divisor = 1;   // Adam: the root of 1 - beta2^step
  float root_factor = 1;    // one by it, in double precision until it is rounded
  float epsilon = 0;
  float negative_rate = 0;  // what the direction is multiplied by
  float momentum = 0;
  float nesterov_momentum = 0;  // the same, as far as it is rounded when the buffer is added
  float gradient_weight = 1;    // SGD: 1 - dampening
};

[[nodiscard]] Numbers numbers_of(const Options& options, Form form, const Step& step);

}  // namespace spillway::optimizer
