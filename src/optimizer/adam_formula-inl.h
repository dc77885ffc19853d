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
#include "optimizer/movements-inl.h"
#include "optimizer/passes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::optimizer::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

// The product in the second moment: which of its factors are rounded together. `Inner` rounds what
// is left of the moment.
template <class Inner>
struct WeightFirst {
  static Vector add(Vector second, Vector beta2, Vector weight, Vector gradient) {
    return hn::MulAdd(hn::Mul(weight, gradient), gradient, Inner{}(hn::Mul(second, beta2)));
  }
};
template <class Inner>
struct SquareFirst {
  static Vector add(Vector second, Vector beta2, Vector weight, Vector gradient) {
    return hn::MulAdd(weight, hn::Mul(gradient, gradient), Inner{}(hn::Mul(second, beta2)));
  }
};
struct ExactSecond {
  static Vector add(Vector second, Vector beta2, Vector weight, Vector gradient) {
    return hn::MulAdd(second, beta2, hn::Mul(hn::Mul(weight, gradient), gradient));
  }
};

// Moments as lerp, mul and addcmul make them.
template <class Product>
class LerpMoments {
 public:
  explicit LerpMoments(const Numbers& numbers)
      : from_first_(hn::Lt(all(std::fabs(numbers.lerp_weight)), all(0.5F))),
        lerp_(all(std::fabs(numbers.lerp_weight) < 0.5F ? numbers.lerp_weight
                                                        : numbers.lerp_weight - 1.0F)),
        beta2_(all(numbers.beta2)),
        weight_(all(numbers.square_weight)) {}
  [[nodiscard]] Vector first(Vector old, Vector gradient) const {
    const Vector base = hn::IfThenElse(from_first_, old, gradient);
    return hn::MulAdd(lerp_, hn::Sub(gradient, old), base);
  }
  [[nodiscard]] Vector second(Vector old, Vector gradient) const {
    return Product::add(old, beta2_, weight_, gradient);
  }

 private:
  hn::Mask<Lanes> from_first_;
  Vector lerp_;
  Vector beta2_;
  Vector weight_;
};

// The fused kernel's on a GPU: 1 - beta is nowhere.
class SplitMoments {
 public:
  explicit SplitMoments(const Numbers& numbers)
      : beta1_(all(numbers.beta1)), beta2_(all(numbers.beta2)) {}
  [[nodiscard]] Vector first(Vector old, Vector gradient) const {
    return hn::MulAdd(old, beta1_, hn::NegMulAdd(gradient, beta1_, gradient));
  }
  [[nodiscard]] Vector second(Vector old, Vector gradient) const {
    const Vector square = hn::Mul(gradient, gradient);
    return hn::MulAdd(old, beta2_, hn::NegMulAdd(square, beta2_, square));
  }

 private:
  Vector beta1_;
  Vector beta2_;
};

// The root by its correction.
class DividedRoot {
 public:
  explicit DividedRoot(const Numbers& numbers) : divisor_(all(numbers.root_divisor)) {}
  Vector operator()(Vector root) const { return hn::Div(root, divisor_); }

 private:
  Vector divisor_;
};
class MultipliedRoot {
 public:
  explicit MultipliedRoot(const Numbers& numbers) : factor_(all(numbers.root_factor)) {}
  Vector operator()(Vector root) const { return hn::Mul(root, factor_); }

 private:
  Vector factor_;
};

// One of PyTorch's ways.
template <class OwnRound, class OwnMoments, class OwnLargest, class OwnCorrection,
          class OwnMovement, Decay kOwnDecoupled = Decay::kDecoupled>
struct AdamOrder {
  using Round = OwnRound;
  using Moments = OwnMoments;
  using Largest = OwnLargest;
  using Correction = OwnCorrection;
  using Movement = OwnMovement;
  static constexpr Decay kDecoupled = kOwnDecoupled;
};

template <class Order, Decay kDecay, bool kScaled, bool kAmsgrad>
class AdamFormula {
 public:
  explicit AdamFormula(const Numbers& numbers)
      : gradients_(numbers),
        moments_(numbers),
        correction_(numbers),
        epsilon_(all(numbers.epsilon)),
        rate_(all(numbers.negative_rate)) {}

  static Vector round(Vector value) { return typename Order::Round{}(value); }

  template <class T>
  Between before(const T& tensors, std::size_t i) const {
    Vector parameter = load(tensors.parameter + i);
    const Vector gradient = gradients_(tensors, i, parameter);
    const Vector first = round(moments_.first(load(tensors.first + i), gradient));
    Vector squares = round(moments_.second(load(tensors.second + i), gradient));
    store(first, tensors.first_out + i);
    store(squares, tensors.second_out + i);
    if constexpr (kAmsgrad) {
      squares = Order::Largest::of(load(tensors.max_second + i), squares);
      store(squares, tensors.max_second_out + i);
    }
    return {parameter, first, squares};
  }

  Vector after(const Between& between, Vector root) const {
    const Vector divisor = round(hn::Add(round(correction_(root)), epsilon_));
    return Order::Movement::moved(between.parameter, between.direction, rate_, divisor);
  }

 private:
  Gradients<typename Order::Round, kDecay, kScaled> gradients_;
  typename Order::Moments moments_;
  typename Order::Correction correction_;
  Vector epsilon_;
  Vector rate_;
};

#endif
}  // namespace spillway::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
