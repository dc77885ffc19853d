// A space's options between C and the runtime. Layer: capi. Thread-safe.
#pragma once

#include "capi/failure.h"
#include "runtime/run/program_space.h"

namespace spillway::capi {

// What the environment says, and the rest as the runtime has it.
[[nodiscard]] Outcome<SpaceOptions> default_options();
// Fails with spillwayErrorInvalidValue for what no space could have.
[[nodiscard]] Outcome<SpaceOptions> checked_options(const spillwaySpaceOptions_t& options);

}  // namespace spillway::capi
