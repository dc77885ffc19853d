// The last operations of Adam and Adagrad, and the larger of two. Included once for each processor
// (targets.h). Layer: optimizer.
#if defined(SPILLWAY_OPTIMIZER_MOVEMENTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPTIMIZER_MOVEMENTS_INL
#undef SPILLWAY_OPTIMIZER_MOVEMENTS_INL
#else
#define SPILLWAY_OPTIMIZER_MOVEMENTS_INL
#endif

#include "optimizer/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::optimizer::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

// p + rate * direction / divisor. `Inner` rounds the product.
template <class Inner>
struct ProductFirst {
  static Vector moved(Vector parameter, Vector direction, Vector rate, Vector divisor) {
    return hn::Add(hn::Div(Inner{}(hn::Mul(rate, direction)), divisor), parameter);
  }
};
// The same number; but of two NaN the parameter's stays.
struct ProductSubtracted {
  static Vector moved(Vector parameter, Vector direction, Vector rate, Vector divisor) {
    return hn::Sub(parameter, hn::Div(hn::Mul(hn::Neg(rate), direction), divisor));
  }
};
struct QuotientFirst {
  static Vector moved(Vector parameter, Vector direction, Vector rate, Vector divisor) {
    return hn::MulAdd(rate, hn::Div(direction, divisor), parameter);
  }
};

// NaN, all of whose bits are set, if either is: PyTorch's vectors.
struct NanWins {
  static Vector of(Vector a, Vector b) {
    const auto neither = hn::And(hn::Eq(a, a), hn::Eq(b, b));
    return hn::Or(hn::Max(a, b), hn::VecFromMask(Lanes{}, hn::Not(neither)));
  }
};
// A NaN without payload if either is one: behind PyTorch's vectors.
struct NanOfSinglesWins {
  static Vector of(Vector before, Vector now) {
    const auto both = hn::And(hn::Eq(before, before), hn::Eq(now, now));
    const Vector larger = hn::IfThenElse(hn::Lt(before, now), now, before);
    return hn::IfThenElse(both, larger,
                          hn::BitCast(Lanes{}, hn::Set(Words{}, kNanOfSingles << 16)));
  }
};
// What is not a number is not larger.
struct NanIsNotLarger {
  static Vector of(Vector before, Vector now) {
    return hn::IfThenElse(hn::Lt(before, now), now, before);
  }
};

#endif
}  // namespace spillway::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
