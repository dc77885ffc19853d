// A step of Adam between C and the near device. Layer: capi. Thread-safe.
#pragma once

#include <cstddef>

#include "capi/failure.h"
#include "optimizer/update.h"
#include "spillway/near.h"

namespace spillway::capi {

struct AdamStep {
  optimizer::Update update;
  optimizer::Step step;
  optimizer::Operands operands;
  std::size_t elements = 0;
};

// spillwayErrorInvalidValue: fields that no step has; spillwayErrorNotSupported: bits that cannot
// be had here.
[[nodiscard]] Outcome<AdamStep> checked_adam(const spillwayNearAdam_t& adam);

}  // namespace spillway::capi
