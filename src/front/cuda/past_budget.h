// Device memory that the program takes of the driver itself, so that it is not the space's and does
// not count against the budget. Layer: front, cuda. Thread-safe.
#pragma once

#include <string_view>

#include "base/units.h"

namespace spillway::cuda {

// By this call of the driver, made from `caller` (an address in the program's code).
void took_past_budget(std::string_view call, Bytes bytes, const void* caller);
void gave_back_past_budget(std::string_view call, Bytes bytes);

}  // namespace spillway::cuda
