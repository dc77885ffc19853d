// Adagrad for a vector of elements. Included once for each processor (targets.h). Layer: optimizer.
#if defined(SPILLWAY_OPTIMIZER_ADAGRAD_FORMULA_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPTIMIZER_ADAGRAD_FORMULA_INL
#undef SPILLWAY_OPTIMIZER_ADAGRAD_FORMULA_INL
#else
#define SPILLWAY_OPTIMIZER_ADAGRAD_FORMULA_INL
#endif

#include "optimizer/gradients-inl.h"
#include "optimizer/movements-inl.h"
#include "optimizer/passes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::optimizer::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

template <class Round, class Movement, Decay kDecay, bool kScaled>
class AdagradFormula {
 public:
  explicit AdagradFormula(const Numbers& numbers)
      : gradients_(numbers), epsilon_(all(numbers.epsilon)), rate_(all(numbers.negative_rate)) {}

  static Vector round(Vector value) { return Round{}(value); }

  template <class T>
  Between before(const T& tensors, std::size_t i) const {
    Vector parameter = load(tensors.parameter + i);
    const Vector gradient = gradients_(tensors, i, parameter);
    const Vector sum = round(hn::MulAdd(gradient, gradient, load(tensors.first + i)));
    store(sum, tensors.first_out + i);
    return {parameter, gradient, sum};
  }

  Vector after(const Between& between, Vector root) const {
    const Vector divisor = round(hn::Add(root, epsilon_));
    return Movement::moved(between.parameter, between.direction, rate_, divisor);
  }

 private:
  Gradients<Round, kDecay, kScaled> gradients_;
  Vector epsilon_;
  Vector rate_;
};

#endif
}  // namespace spillway::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
