// SGD for a vector of elements, in the orders in which PyTorch rounds. Included once for each
// processor (targets.h). Layer: optimizer.
#if defined(SPILLWAY_OPTIMIZER_SGD_FORMULA_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPTIMIZER_SGD_FORMULA_INL
#undef SPILLWAY_OPTIMIZER_SGD_FORMULA_INL
#else
#define SPILLWAY_OPTIMIZER_SGD_FORMULA_INL
#endif

#include <type_traits>

#include "optimizer/gradients-inl.h"
#include "optimizer/passes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::optimizer::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

// Where the direction comes from. Each stores the buffer, if it has one.
struct WithoutMomentum {
  explicit WithoutMomentum(const Numbers& /*numbers*/) {}
  template <class Round, class T>
  Vector direction(const T& /*tensors*/, std::size_t /*i*/, Vector gradient) const {
    return gradient;
  }
};

// Which of the two products is the exact one.
struct ExactGradient {
  template <class Round>
  static Vector buffer(Vector old, Vector momentum, Vector gradient, Vector weight) {
    return Round{}.add_product(gradient, weight, Round{}(hn::Mul(old, momentum)));
  }
};
struct ExactBuffer {
  template <class Round>
  static Vector buffer(Vector old, Vector momentum, Vector gradient, Vector weight) {
    return hn::MulAdd(old, momentum, hn::Mul(gradient, weight));
  }
};

template <class Exact, bool kFirstStep, bool kNesterov>
class WithMomentum {
 public:
  explicit WithMomentum(const Numbers& numbers)
      : momentum_(all(numbers.momentum)),
        nesterov_momentum_(all(numbers.nesterov_momentum)),
        gradient_weight_(all(numbers.gradient_weight)),
        unchanged_(numbers.decay == Decay::kNone && !numbers.scaled),
        negative_(numbers.sign == -1) {}

  template <class Round, class T>
  Vector direction(const T& tensors, std::size_t i, Vector gradient) const {
    Vector buffer = gradient;
    if constexpr (!kFirstStep) {
      buffer = Exact::template buffer<Round>(load(tensors.first + i), momentum_, gradient,
                                             gradient_weight_);
    }
    if (kFirstStep && unchanged_ && keeps_bits(tensors.first_out)) {
      store_bits(buffer, tensors.first_out + i);
    } else {
      store(buffer, tensors.first_out + i);
    }
    if constexpr (kNesterov) {
      return Round{}.add_product(buffer, nesterov_momentum_, gradient);
    }
    return buffer;
  }

 private:
  // Of a gradient that becomes the buffer, or its negative: PyTorch copies the one, and of the
  // other its vectors turn the bit of the sign.
  template <class Parameter>
  [[nodiscard]] bool keeps_bits(const Parameter* /*out*/) const {
    return !negative_ || !std::is_same_v<Parameter, SingleBfloat16>;
  }

  Vector momentum_;
  Vector nesterov_momentum_;
  Vector gradient_weight_;
  bool unchanged_;
  bool negative_;
};

template <class Round, class Momentum, Decay kDecay, bool kScaled>
class SgdFormula {
 public:
  explicit SgdFormula(const Numbers& numbers)
      : gradients_(numbers), momentum_(numbers), rate_(all(numbers.negative_rate)) {}

  template <class T>
  Vector result(const T& tensors, std::size_t i) const {
    Vector parameter = load(tensors.parameter + i);
    const Vector gradient = gradients_(tensors, i, parameter);
    const Vector direction = momentum_.template direction<Round>(tensors, i, gradient);
    return Round{}.add_product(direction, rate_, parameter);
  }

 private:
  Gradients<Round, kDecay, kScaled> gradients_;
  Momentum momentum_;
  Vector rate_;
};

#endif
}  // namespace spillway::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
