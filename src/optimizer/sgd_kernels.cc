// SGD's kernels, compiled once for each processor (targets.h). Layer: optimizer.
#include "optimizer/choice.h"
#include "optimizer/range.h"
#include "optimizer/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizer/sgd_kernels.cc"
#include "hwy/foreach_target.h"
//
#include "optimizer/sgd_formula-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::optimizer::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

template <class Parameter, class Gradient, class Round, class Momentum, bool kFusedTail>
void sgd_with(const Numbers& numbers, const Range& range) {
  with_decay<Decay::kNone, kFusedTail>(numbers.decay, [&](auto decay) {
    with_flag(numbers.scaled, [&](auto scaled) {
      const SgdFormula<Round, Momentum, decltype(decay)::value, decltype(scaled)::value> formula(
          numbers);
      go_over<Parameter, Gradient>(formula, Rootless{}, range);
    });
  });
}

template <class Parameter, class Gradient, class Round, class Exact>
void sgd_of(const Options& options, const Numbers& numbers, const Range& range) {
  constexpr bool kFusedTail = std::is_same_v<Exact, ExactBuffer>;
  if (numbers.momentum == 0) {
    return sgd_with<Parameter, Gradient, Round, WithoutMomentum, kFusedTail>(numbers, range);
  }
  with_flag(numbers.first_step, [&](auto first) {
    with_flag(options.nesterov, [&](auto nesterov) {
      using Momentum = WithMomentum<Exact, decltype(first)::value, decltype(nesterov)::value>;
      sgd_with<Parameter, Gradient, Round, Momentum, kFusedTail>(numbers, range);
    });
  });
}

template <class Gradient>
void sgd_float32(const Options& options, Form form, const Numbers& numbers, const Range& range) {
  if (form == Form::kFusedTail) {
    return sgd_of<float, Gradient, Unrounded, ExactBuffer>(options, numbers, range);
  }
  sgd_of<float, Gradient, Unrounded, ExactGradient>(options, numbers, range);
}

void sgd(const Options& options, Form form, const Numbers& numbers, const Range& range) {
  if (options.parameter_type == NumberType::kBfloat16) {
    if (form == Form::kFusedCuda) {
      return sgd_of<Bfloat16, Bfloat16, Unrounded, ExactGradient>(options, numbers, range);
    }
    if (form == Form::kLoopTail) {
      return sgd_of<Single<Bfloat16>, Single<Bfloat16>, ToBfloat16Twice, ExactGradient>(
          options, numbers, range);
    }
    return sgd_of<Bfloat16, Bfloat16, ToBfloat16, ExactGradient>(options, numbers, range);
  }
  if (options.gradient_type == NumberType::kBfloat16) {
    return sgd_float32<Bfloat16>(options, form, numbers, range);
  }
  sgd_float32<float>(options, form, numbers, range);
}

#endif
}  // namespace spillway::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::optimizer {

Kernel sgd_kernel() {
  switch (this_target()) {
    case Target::kAvx2:
      return N_AVX2::sgd;
    case Target::kAvx512:
      return N_AVX3::sgd;
    case Target::kNone:
      break;
  }
  return nullptr;
}

}  // namespace spillway::optimizer
#endif
