// What every rule does first: the gradient, divided, negated and decayed. Included once for each
// processor (targets.h). Layer: optimizer.
#if defined(SPILLWAY_OPTIMIZER_GRADIENTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPTIMIZER_GRADIENTS_INL
#undef SPILLWAY_OPTIMIZER_GRADIENTS_INL
#else
#define SPILLWAY_OPTIMIZER_GRADIENTS_INL
#endif

#include "optimizer/numbers.h"
#include "optimizer/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::optimizer::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

template <class Round, Decay kDecay, bool kScaled>
class Gradients {
 public:
  explicit Gradients(const Numbers& numbers)
      : scale_(all(numbers.gradient_scale)),
        sign_(all(numbers.sign)),
        factor_(all(numbers.decay_factor)) {}

  // The gradient that the rule sees. A decoupled decay changes the parameter.
  template <class T>
  Vector operator()(const T& tensors, std::size_t i, Vector& parameter) const {
    Vector gradient = load(tensors.gradient + i);
    if constexpr (kScaled) {
      gradient = hn::Div(gradient, scale_);
      if (tensors.gradient_out != nullptr) {
        store(gradient, tensors.gradient_out + i);
      }
    }
    if constexpr (kDecay == Decay::kLessGradient) {
      return hn::MulSub(parameter, factor_, gradient);
    }
    gradient = with_sign(gradient, sign_);
    if constexpr (kDecay == Decay::kIntoGradient) {
      gradient = Round{}.add_product(parameter, factor_, gradient);
    }
    if constexpr (kDecay == Decay::kSubtracted) {
      parameter = hn::MulAdd(factor_, parameter, parameter);
    }
    if constexpr (kDecay == Decay::kDecoupled) {
      parameter = Round{}(hn::Mul(parameter, factor_));
    }
    return gradient;
  }

 private:
  Vector scale_;
  Vector sign_;
  Vector factor_;
};

#endif
}  // namespace spillway::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
