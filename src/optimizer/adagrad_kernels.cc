// Adagrad's kernels, compiled once for each processor (targets.h). Layer: optimizer.
#include "optimizer/choice.h"
#include "optimizer/range.h"
#include "optimizer/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizer/adagrad_kernels.cc"
#include "hwy/foreach_target.h"
//
#include "optimizer/adagrad_formula-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::optimizer::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

template <class Parameter, class Gradient, class Round, class Movement, bool kFusedOnCpu = false,
          class Pass>
void adagrad_with(const Numbers& numbers, const Range& range, const Pass& pass) {
  with_decay<Decay::kNone, kFusedOnCpu>(numbers.decay, [&](auto decay) {
    with_flag(numbers.scaled, [&](auto scaled) {
      const AdagradFormula<Round, Movement, decltype(decay)::value, decltype(scaled)::value>
          formula(numbers);
      go_over<Parameter, Gradient>(formula, pass, range);
    });
  });
}

// `Round` and `LoopTail`: what operators round their results to. The forms differ in that, here and
// in the numbers, and on a GPU in the last operations.
template <class Parameter, class Gradient, class Round, class LoopTail>
void adagrad_of(const Options& options, Form form, const Numbers& numbers, const Range& range) {
  using OnCpu = ProductFirst<Unrounded>;
  const CorrectRoots pass;
  switch (form) {
    case Form::kLoop:
      if (options.square_roots != nullptr && options.parameter_type == NumberType::kFloat32) {
        return adagrad_with<Parameter, Gradient, Round, OnCpu>(
            numbers, range, CalledRoots{options.square_roots, options.square_roots_mode});
      }
      return adagrad_with<Parameter, Gradient, Round, OnCpu>(numbers, range, pass);
    case Form::kLoopTail:
      return adagrad_with<Single<Parameter>, Single<Gradient>, LoopTail, OnCpu>(numbers, range,
                                                                                pass);
    case Form::kFusedVector:
      return adagrad_with<Parameter, Gradient, Unrounded, ProductSubtracted, true>(numbers, range,
                                                                                   pass);
    case Form::kFusedTail:
      return adagrad_with<Single<Parameter>, Single<Gradient>, Unrounded, ProductSubtracted, true>(
          numbers, range, pass);
    case Form::kLoopCuda:
      return adagrad_with<Parameter, Gradient, Round, QuotientFirst>(numbers, range, pass);
    case Form::kForeachCuda:
      return adagrad_with<Parameter, Gradient, Round, ProductFirst<Round>>(numbers, range, pass);
    case Form::kFusedCuda:
      break;  // refused
  }
}

void adagrad(const Options& options, Form form, const Numbers& numbers, const Range& range) {
  if (options.parameter_type == NumberType::kBfloat16) {
    return adagrad_of<Bfloat16, Bfloat16, ToBfloat16, ToBfloat16Twice>(options, form, numbers,
                                                                       range);
  }
  if (options.gradient_type == NumberType::kBfloat16) {
    return adagrad_of<float, Bfloat16, Unrounded, Unrounded>(options, form, numbers, range);
  }
  adagrad_of<float, float, Unrounded, Unrounded>(options, form, numbers, range);
}

#endif
}  // namespace spillway::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::optimizer {

Kernel adagrad_kernel() {
  switch (this_target()) {
    case Target::kAvx2:
      return N_AVX2::adagrad;
    case Target::kAvx512:
      return N_AVX3::adagrad;
    case Target::kNone:
      break;
  }
  return nullptr;
}

}  // namespace spillway::optimizer
#endif
