// The scalar arithmetic of a step, in double, as Python and PyTorch's C++ do it. Layer: optimizer.
#include "optimizer/numbers.h"

#include <bit>
#include <cmath>

#include "optimizer/gpu_power.h"

namespace spillway::optimizer {
namespace {

float single(double value) { return static_cast<float>(value); }

// Through single precision, to nearest, ties to even.
float bfloat16(double value) {
  const float rounded = single(value);
  if (std::isnan(rounded)) return rounded;
  const auto bits = std::bit_cast<std::uint32_t>(rounded);
  const std::uint32_t up = ((bits >> 16) & 1) + 0x7FFF;
  return std::bit_cast<float>((bits + up) & 0xFFFF0000);
}

// The scalars of a step in one form.
class Scalars {
 public:
  Scalars(const Options& options, Form form, const Step& step)
      : options_(options), form_(form), step_(step) {}

  Numbers numbers() {
    numbers_.sign = options_.maximize ? -1.0F : 1.0F;
    numbers_.scaled = step_.gradient_scale != 1;
    numbers_.gradient_scale = single(step_.gradient_scale);
    add_decay();
    switch (options_.rule) {
      case Rule::kAdam:
        add_adam();
        break;
      case Rule::kSgd:
        add_sgd();
        break;
      case Rule::kAdagrad:
        add_adagrad();
        break;
    }
    return numbers_;
  }

 private:
  [[nodiscard]] bool halves() const { return options_.parameter_type == NumberType::kBfloat16; }
  [[nodiscard]] bool fused() const { return options_.variant == Variant::kFusedCpu; }

  // What a loop adds, or multiplies what it adds by, has the type of the tensors; other factors and
  // divisors have not.
  [[nodiscard]] float addend(double value) const {
    return halves() && form_ <= Form::kLoopTail ? bfloat16(value) : single(value);
  }
  // What the vectors of fused Adagrad round to the type of the tensors, and what is left does not.
  [[nodiscard]] float of_vectors(double value) const {
    return halves() && form_ == Form::kFusedVector ? bfloat16(value) : single(value);
  }

  void add_decay() {
    if (step_.weight_decay == 0) return;
    if (options_.decoupled_decay && form_ == Form::kFusedCuda) {
      numbers_.decay = Decay::kSubtracted;
      numbers_.decay_factor = -(single(step_.learning_rate) * single(step_.weight_decay));
      return;
    }
    if (options_.decoupled_decay) {
      numbers_.decay = Decay::kDecoupled;
      numbers_.decay_factor = single(left_of_parameter());
      return;
    }
    numbers_.decay = subtracts_gradient() ? Decay::kLessGradient : Decay::kIntoGradient;
    numbers_.decay_factor = options_.rule == Rule::kAdagrad && fused()
                                ? of_vectors(step_.weight_decay)
                                : addend(step_.weight_decay);
  }

  // PyTorch's compiler has made one operation of negating and adding, but not everywhere.
  [[nodiscard]] bool subtracts_gradient() const {
    const bool joined =
        form_ == Form::kFusedVector ? options_.rule != Rule::kSgd : options_.rule != Rule::kAdam;
    return fused() && joined && options_.maximize;
  }

  // PyTorch's compiler has made one operation of the two.
  [[nodiscard]] double left_of_parameter() const {
    if (fused()) return std::fma(-step_.learning_rate, step_.weight_decay, 1.0);
    const double part = step_.learning_rate * step_.weight_decay;
    return 1 - part;
  }

  // In single precision from the beginning.
  void correct_as_fused_on_gpu() {
    const auto count = static_cast<float>(step_.step);
    numbers_.root_divisor = std::sqrt(1.0F - gpu_power(numbers_.beta2, count));
    numbers_.negative_rate =
        -(single(step_.learning_rate) / (1.0F - gpu_power(numbers_.beta1, count)));
  }

  void add_adam() {
    const double correction1 = 1 - std::pow(step_.beta1, step_.step);
    const double correction2 = 1 - std::pow(step_.beta2, step_.step);
    numbers_.beta1 = single(step_.beta1);
    numbers_.lerp_weight = single(1 - step_.beta1);
    numbers_.beta2 = single(step_.beta2);
    numbers_.square_weight = single(1 - step_.beta2);
    // Python writes the root as a power.
    const double root = fused() ? std::sqrt(correction2) : std::pow(correction2, 0.5);
    numbers_.root_divisor = single(root);
    numbers_.root_factor = single(1 / root);
    numbers_.epsilon = addend(step_.epsilon);
    numbers_.negative_rate = single(-(step_.learning_rate / correction1));
    if (form_ == Form::kFusedCuda) correct_as_fused_on_gpu();
  }

  void add_sgd() {
    numbers_.first_step = step_.step == 1;
    numbers_.momentum = single(step_.momentum);
    numbers_.nesterov_momentum = addend(step_.momentum);
    numbers_.gradient_weight =
        form_ == Form::kFusedCuda ? 1.0F - single(step_.dampening) : addend(1 - step_.dampening);
    numbers_.negative_rate = addend(-step_.learning_rate);
  }

  void add_adagrad() {
    const double before = step_.step - 1;
    const double divisor = fused() ? std::fma(before, step_.learning_rate_decay, 1.0)
                                   : 1 + before * step_.learning_rate_decay;
    numbers_.epsilon = fused() ? of_vectors(step_.epsilon) : addend(step_.epsilon);
    numbers_.negative_rate = of_vectors(-(step_.learning_rate / divisor));
  }

  const Options& options_;
  Form form_;
  const Step& step_;
  Numbers numbers_;
};

}  // namespace

Numbers numbers_of(const Options& options, Form form, const Step& step) {
  return Scalars(options, form, step).numbers();
}

}  // namespace spillway::optimizer
