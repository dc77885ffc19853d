// A space's options between C and the runtime. Layer: front, C API. Thread-safe.
#pragma once

#include "front/capi/failure.h"
#include "runtime/host/host_space.h"

namespace spillway::capi {

// What the environment says, and the rest as the runtime has it.
[[nodiscard]] Outcome<HostSpaceOptions> default_options();
// Fails with spillwayErrorInvalidValue for what no space could have.
[[nodiscard]] Outcome<HostSpaceOptions> checked_options(const spillwaySpaceOptions_t& options);

}  // namespace spillway::capi
