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

template <class Continue>
void with_decay(Decay decay, const Continue& next) {
  switch (decay) {
    case Decay::kNone:
      return next(DecayConstant<Decay::kNone>{});
    case Decay::kIntoGradient:
      return next(DecayConstant<Decay::kIntoGradient>{});
    case Decay::kDecoupled:
      return next(DecayConstant<Decay::kDecoupled>{});
  }
}

}  // namespace spillway::optimizer
