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

template <class Parameter, class Gradient, class Round, class Pass>
void adagrad_with(const Numbers& numbers, const Range& range, const Pass& pass) {
  with_decay(numbers.decay, [&](auto decay) {
    with_flag(numbers.scaled, [&](auto scaled) {
      const AdagradFormula<Round, decltype(decay)::value, decltype(scaled)::value> formula(numbers);
      go_over<Parameter, Gradient>(formula, pass, range);
    });
  });
}

template <class Gradient>
void adagrad_float32(const Options& options, Form form, const Numbers& numbers,
                     const Range& range) {
  if (form == Form::kLoop && options.square_roots != nullptr) {
    return adagrad_with<float, Gradient, Unrounded>(
        numbers, range, CalledRoots{options.square_roots, options.square_roots_mode});
  }
  adagrad_with<float, Gradient, Unrounded>(numbers, range, CorrectRoots{});
}

// The forms differ in what they round to the type of the tensors: here and in the numbers.
void adagrad(const Options& options, Form form, const Numbers& numbers, const Range& range) {
  if (options.parameter_type == NumberType::kBfloat16) {
    if (form == Form::kLoop) {
      return adagrad_with<Bfloat16, Bfloat16, ToBfloat16>(numbers, range, CorrectRoots{});
    }
    if (form == Form::kLoopTail) {
      return adagrad_with<Bfloat16, Bfloat16, ToBfloat16Twice>(numbers, range, CorrectRoots{});
    }
    return adagrad_with<Bfloat16, Bfloat16, Unrounded>(numbers, range, CorrectRoots{});
  }
  if (options.gradient_type == NumberType::kBfloat16) {
    return adagrad_float32<Bfloat16>(options, form, numbers, range);
  }
  adagrad_float32<float>(options, form, numbers, range);
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
