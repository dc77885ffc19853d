// From values that are known at run time to template parameters, once a range. Layer: optimizer.
#pragma once

#include <type_traits>

#include "optimizer/numbers.h"

namespace spillway::optimizer {

template <Decay kDecay>
using DecayConstant = std::integral_constant<Decay, kDecay>;

template <class Continue>
void with_flag(bool flag, const Continue& next) {
  if (flag) {
    next(std::true_type{});
  } else {
    next(std::false_type{});
  }
}

// `kDecoupled`: how a decoupled decay is computed, where there is one. `kFusedOnCpu`: which alone
// has kLessGradient.
template <Decay kDecoupled, bool kFusedOnCpu, class Continue>
void with_decay(Decay decay, const Continue& next) {
  if (decay == Decay::kNone) return next(DecayConstant<Decay::kNone>{});
  if (decay == Decay::kIntoGradient) return next(DecayConstant<Decay::kIntoGradient>{});
  if constexpr (kFusedOnCpu) {
    if (decay == Decay::kLessGradient) return next(DecayConstant<Decay::kLessGradient>{});
  }
  if constexpr (kDecoupled != Decay::kNone) return next(DecayConstant<kDecoupled>{});
}

}  // namespace spillway::optimizer
