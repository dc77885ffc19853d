// The numbers of a space as the C API gives them. Layer: capi. Thread-safe.
#pragma once

#include "capi/managed_space.h"
#include "spillway/spillway.h"

namespace spillway::capi {

[[nodiscard]] spillwayStatistics_t statistics_of(const ManagedSpace& space);

}  // namespace spillway::capi
