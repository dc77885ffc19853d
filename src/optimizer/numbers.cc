// The scalar arithmetic of a step, in double, as Python and PyTorch's C++ do it. Layer: optimizer.
#include "optimizer/numbers.h"

#include <cmath>

namespace spillway::optimizer {
namespace {

float single(double value) { return static_cast<float>(value); }

// What a decoupled decay leaves of a parameter. PyTorch's compiler made one operation of the two.
double left_of_parameter(const Options& options, const Step& step) {
  if (options.variant == Variant::kFusedCpu) {
    return std::fma(-step.learning_rate, step.weight_decay, 1.0);
  }
  const double part = step.learning_rate * step.weight_decay;
  return 1 - part;
}

void add_adam(const Options& options, const Step& step, Numbers& numbers) {
  const double correction1 = 1 - std::pow(step.beta1, step.step);
  const double correction2 = 1 - std::pow(step.beta2, step.step);
  // Python writes the root as a power.
  const double root =
      options.variant == Variant::kFusedCpu ? std::sqrt(correction2) : std::pow(correction2, 0.5);
  numbers.lerp_weight = single(1 - step.beta1);
  numbers.beta2 = single(step.beta2);
  numbers.square_weight = single(1 - step.beta2);
  numbers.root_divisor = single(root);
  numbers.epsilon = single(step.epsilon);
  numbers.negative_rate = single(-(step.learning_rate / correction1));
}

void add_sgd(const Step& step, Numbers& numbers) {
  numbers.has_buffer = step.momentum != 0;
  numbers.first_step = step.step == 1;
  numbers.momentum = single(step.momentum);
  numbers.gradient_weight = single(1 - step.dampening);
  numbers.negative_rate = single(-step.learning_rate);
}

void add_adagrad(const Options& options, const Step& step, Numbers& numbers) {
  const double before = step.step - 1;
  const double divisor = options.variant == Variant::kFusedCpu
                             ? std::fma(before, step.learning_rate_decay, 1.0)
                             : 1 + before * step.learning_rate_decay;
  numbers.epsilon = single(step.epsilon);
  numbers.negative_rate = single(-(step.learning_rate / divisor));
}

}  // namespace

Numbers numbers_of(const Options& options, const Step& step) {
  Numbers numbers;
  numbers.sign = options.maximize ? -1.0F : 1.0F;
  numbers.scaled = step.gradient_scale != 1;
  numbers.gradient_scale = single(step.gradient_scale);
  if (step.weight_decay != 0) {
    numbers.decay = options.decoupled_decay ? Decay::kDecoupled : Decay::kIntoGradient;
    numbers.decay_factor =
        single(options.decoupled_decay ? left_of_parameter(options, step) : step.weight_decay);
  }
  switch (options.rule) {
    case Rule::kAdam:
      add_adam(options, step, numbers);
      break;
    case Rule::kSgd:
      add_sgd(step, numbers);
      break;
    case Rule::kAdagrad:
      add_adagrad(options, step, numbers);
      break;
  }
  return numbers;
}

}  // namespace spillway::optimizer
