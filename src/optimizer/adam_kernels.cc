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

// In single precision a loop on the CPU and the vectors of the fused kernel round alike.
template <class Round>
using VectorsOnCpu = AdamOrder<Round, LerpMoments<WeightFirst<Round>>, NanWins, DividedRoot,
                               ProductFirst<Unrounded>>;
template <class Round, class RoundOfMoments>
using LoopTailOnCpu = AdamOrder<Round, LerpMoments<WeightFirst<RoundOfMoments>>, NanOfSinglesWins,
                                DividedRoot, ProductFirst<Unrounded>>;
using FusedTailOnCpu =
    AdamOrder<Unrounded, LerpMoments<ExactSecond>, NanIsNotLarger, DividedRoot, ProductSubtracted>;
template <class Round>
using LoopOnGpu =
    AdamOrder<Round, LerpMoments<SquareFirst<Round>>, NanWins, MultipliedRoot, QuotientFirst>;
template <class Round>
using ForeachOnGpu =
    AdamOrder<Round, LerpMoments<SquareFirst<Round>>, NanWins, DividedRoot, QuotientFirst>;
using FusedOnGpu = AdamOrder<Unrounded, SplitMoments, NanIsNotLarger, DividedRoot,
                             ProductFirst<Unrounded>, Decay::kSubtracted>;

template <class Parameter, class Gradient, class Order, bool kMayBeScaled, class Pass>
void adam_in(const Options& options, const Numbers& numbers, const Range& range, const Pass& pass) {
  with_decay<Order::kDecoupled, kMayBeScaled && !std::is_same_v<Order, FusedOnGpu>>(
      numbers.decay, [&](auto decay) {
        with_flag(options.amsgrad, [&](auto amsgrad) {
          with_flag(kMayBeScaled && numbers.scaled, [&](auto scaled) {
            constexpr bool kScaled = kMayBeScaled && decltype(scaled)::value;
            const AdamFormula<Order, decltype(decay)::value, kScaled, decltype(amsgrad)::value>
                formula(numbers);
            go_over<Parameter, Gradient>(formula, pass, range);
          });
        });
      });
}

// With the roots of torch.sqrt, which is the caller's function in single precision.
template <class Parameter, class Gradient, class Order>
void adam_loop(const Options& options, const Numbers& numbers, const Range& range) {
  if constexpr (std::is_same_v<Parameter, float>) {
    if (options.square_roots != nullptr) {
      return adam_in<Parameter, Gradient, Order, false>(
          options, numbers, range, CalledRoots{options.square_roots, options.square_roots_mode});
    }
  }
  adam_in<Parameter, Gradient, Order, false>(options, numbers, range, CorrectRoots{});
}

// `Round` and `LoopTail`: what operators round their results to.
template <class Parameter, class Gradient, class Round, class LoopTail>
void adam_of(const Options& options, Form form, const Numbers& numbers, const Range& range) {
  const CorrectRoots pass;
  switch (form) {
    case Form::kLoop:
      return adam_loop<Parameter, Gradient, VectorsOnCpu<Round>>(options, numbers, range);
    case Form::kLoopTail:
      return adam_loop<Single<Parameter>, Single<Gradient>, LoopTail>(options, numbers, range);
    case Form::kFusedVector:
      return adam_in<Parameter, Gradient, VectorsOnCpu<Unrounded>, true>(options, numbers, range,
                                                                         pass);
    case Form::kFusedTail:
      return adam_in<Single<Parameter>, Single<Gradient>, FusedTailOnCpu, true>(options, numbers,
                                                                                range, pass);
    case Form::kLoopCuda:
      return adam_in<Parameter, Gradient, LoopOnGpu<Round>, false>(options, numbers, range, pass);
    case Form::kForeachCuda:
      return adam_in<Parameter, Gradient, ForeachOnGpu<Round>, false>(options, numbers, range,
                                                                      pass);
    case Form::kFusedCuda:
      return adam_in<Parameter, Gradient, FusedOnGpu, true>(options, numbers, range, pass);
  }
}

void adam(const Options& options, Form form, const Numbers& numbers, const Range& range) {
  if (options.parameter_type == NumberType::kBfloat16) {
    return adam_of<Bfloat16, Bfloat16, ToBfloat16, LoopTailOnCpu<ToBfloat16Twice, ToBfloat16>>(
        options, form, numbers, range);
  }
  using LoopTail = LoopTailOnCpu<Unrounded, Unrounded>;
  if (options.gradient_type == NumberType::kBfloat16) {
    return adam_of<float, Bfloat16, Unrounded, LoopTail>(options, form, numbers, range);
  }
  adam_of<float, float, Unrounded, LoopTail>(options, form, numbers, range);
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
