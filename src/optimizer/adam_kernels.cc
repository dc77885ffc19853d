// Adam's kernels, compiled once for each processor (targets.h). Layer: optimizer.
#include "optimizer/choice.h"
#include "optimizer/range.h"
#include "optimizer/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimizer/adam_kernels.cc"
#include "hwy/foreach_target.h"
//
#include "optimizer/adam_formula-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::optimizer::HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

template <class Parameter, class Gradient, class Round, class Order, bool kMayBeScaled, class Pass>
void adam_in_order(const Options& options, const Numbers& numbers, const Range& range,
                   const Pass& pass) {
  with_decay(numbers.decay, [&](auto decay) {
    with_flag(options.amsgrad, [&](auto amsgrad) {
      with_flag(kMayBeScaled && numbers.scaled, [&](auto scaled) {
        constexpr bool kScaled = kMayBeScaled && decltype(scaled)::value;
        const AdamFormula<Round, Order, decltype(decay)::value, kScaled, decltype(amsgrad)::value>
            formula(numbers);
        go_over<Parameter, Gradient>(formula, pass, range);
      });
    });
  });
}

// In single precision a loop and the vectors of the fused kernel round alike.
template <class Gradient>
void adam_float32(const Options& options, Form form, const Numbers& numbers, const Range& range) {
  if (form == Form::kFusedTail) {
    return adam_in_order<float, Gradient, Unrounded, TailOrder, true>(options, numbers, range,
                                                                      CorrectRoots{});
  }
  if (form == Form::kLoop && options.square_roots != nullptr) {
    return adam_in_order<float, Gradient, Unrounded, VectorOrder<Unrounded>, false>(
        options, numbers, range, CalledRoots{options.square_roots, options.square_roots_mode});
  }
  adam_in_order<float, Gradient, Unrounded, VectorOrder<Unrounded>, true>(options, numbers, range,
                                                                          CorrectRoots{});
}

template <class Round, class Order, bool kMayBeScaled>
void adam_bfloat16(const Options& options, const Numbers& numbers, const Range& range) {
  adam_in_order<Bfloat16, Bfloat16, Round, Order, kMayBeScaled>(options, numbers, range,
                                                                CorrectRoots{});
}

void adam(const Options& options, Form form, const Numbers& numbers, const Range& range) {
  if (options.parameter_type == NumberType::kFloat32) {
    if (options.gradient_type == NumberType::kBfloat16) {
      return adam_float32<Bfloat16>(options, form, numbers, range);
    }
    return adam_float32<float>(options, form, numbers, range);
  }
  switch (form) {
    case Form::kLoop:
      return adam_bfloat16<ToBfloat16, VectorOrder<ToBfloat16>, false>(options, numbers, range);
    case Form::kLoopTail:
      return adam_bfloat16<ToBfloat16Twice, VectorOrder<ToBfloat16>, false>(options, numbers,
                                                                            range);
    case Form::kFusedVector:
      return adam_bfloat16<Unrounded, VectorOrder<Unrounded>, true>(options, numbers, range);
    case Form::kFusedTail:
      return adam_bfloat16<Unrounded, TailOrder, true>(options, numbers, range);
    case Form::kForeachCuda:
      break;  // not of this type
  }
}

#endif
}  // namespace spillway::optimizer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::optimizer {

Kernel adam_kernel() {
  switch (this_target()) {
    case Target::kAvx2:
      return N_AVX2::adam;
    case Target::kAvx512:
      return N_AVX3::adam;
    case Target::kNone:
      break;
  }
  return nullptr;
}

}  // namespace spillway::optimizer
#endif
