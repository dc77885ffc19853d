// Memory that the driver has given the program past the budget, until it has it back: so the count
// (past_budget.h) goes down again by what is told by an address or a handle alone.
// Layer: interpose, cuda. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/units.h"
#include "interpose/cuda/call_types.h"

namespace spillway::cuda {

enum class DriverMemory : std::uint8_t { kAddress, kHandle, kArray, kMipmaps, kImport };

// The call, without its version, and what it has made.
void driver_gave(std::string_view call, DriverMemory kind, std::uint64_t name, Bytes bytes,
                 const void* caller);
void driver_has_back(DriverMemory kind, std::uint64_t name);
// With its context ends what belongs to it; handles and imports do not.
void driver_has_back_all_of(CuContext context);

}  // namespace spillway::cuda
