// Adam and AdamW for a vector of elements, in the orders in which PyTorch rounds. Included once for
// each processor (targets.h). Layer: optimizer.
#if defined(SPILLWAY_OPTIMIZER_ADAM_FORMULA_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPTIMIZER_ADAM_FORMULA_INL
#undef SPILLWAY_OPTIMIZER_ADAM_FORMULA_INL
#else
#define SPILLWAY_OPTIMIZER_ADAM_FORMULA_INL
#endif

#include <cmath>

#include "optimizer/gradients-inl.h"
#include "optimizer/passes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::optimizer::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

// Operators one after the other, and the vectors of the fused kernel, which differ from them only
// in what is rounded to the type of the tensors.
template <class Round>
struct VectorOrder {
  static Vector square(Vector second, Vector gradient, Vector beta2, Vector weight) {
    const Vector kept = Round{}(hn::Mul(second, beta2));
    return Round{}(hn::MulAdd(hn::Mul(weight, gradient), gradient, kept));
  }
  static Vector largest(Vector before, Vector now) { return larger(before, now); }
  static Vector moved(Vector parameter, Vector direction, Vector rate, Vector divisor) {
    return Round{}(hn::Add(hn::Div(hn::Mul(rate, direction), divisor), parameter));
  }
};

// The elements behind the last full vector of the fused kernel: the other product is the exact one,
// and what is not a number is not larger.
struct TailOrder : VectorOrder<Unrounded> {
  static Vector square(Vector second, Vector gradient, Vector beta2, Vector weight) {
    return hn::MulAdd(second, beta2, hn::Mul(hn::Mul(weight, gradient), gradient));
  }
  static Vector largest(Vector before, Vector now) {
    return hn::IfThenElse(hn::Lt(before, now), now, before);
  }
};

template <class Round, class Order, Decay kDecay, bool kScaled, bool kAmsgrad>
class AdamFormula {
 public:
  explicit AdamFormula(const Numbers& numbers)
      : gradients_(numbers),
        from_first_(hn::Lt(all(std::fabs(numbers.lerp_weight)), all(0.5F))),
        lerp_(all(std::fabs(numbers.lerp_weight) < 0.5F ? numbers.lerp_weight
                                                        : numbers.lerp_weight - 1.0F)),
        beta2_(all(numbers.beta2)),
        square_weight_(all(numbers.square_weight)),
        root_divisor_(all(numbers.root_divisor)),
        epsilon_(all(numbers.epsilon)),
        rate_(all(numbers.negative_rate)) {}

  static Vector round(Vector value) { return Round{}(value); }

  template <class T>
  Between before(const T& tensors, std::size_t i) const {
    Vector parameter = load(tensors.parameter + i);
    const Vector gradient = gradients_(tensors, i, parameter);
    const Vector old = load(tensors.first + i);
    const Vector base = hn::IfThenElse(from_first_, old, gradient);
    const Vector first = round(hn::MulAdd(lerp_, hn::Sub(gradient, old), base));
    Vector squares = Order::square(load(tensors.second + i), gradient, beta2_, square_weight_);
    store(first, tensors.first_out + i);
    store(squares, tensors.second_out + i);
    if constexpr (kAmsgrad) {
      squares = Order::largest(load(tensors.max_second + i), squares);
      store(squares, tensors.max_second_out + i);
    }
    return {parameter, first, squares};
  }

  Vector after(const Between& between, Vector root) const {
    const Vector corrected = round(hn::Div(root, root_divisor_));
    const Vector divisor = round(hn::Add(corrected, epsilon_));
    return Order::moved(between.parameter, between.direction, rate_, divisor);
  }

 private:
  Gradients<Round, kDecay, kScaled> gradients_;
  hn::Mask<Lanes> from_first_;
  Vector lerp_;
  Vector beta2_;
  Vector square_weight_;
  Vector root_divisor_;
  Vector epsilon_;
  Vector rate_;
};

#endif
}  // namespace spillway::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
