// Which of the driver's functions are caught, and by what: from the address that the driver itself
// gives to ours, because one name has several functions. Layer: interpose, cuda.
#pragma once

#include <atomic>
#include <string_view>

#include "interpose/cuda/hooks/hooked_calls.h"
#include "platform/cuda/driver/driver.h"

namespace spillway::cuda {

// The driver's own functions. One that this driver has not got answers kNotFound.
struct RealCalls {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a parameter list
#define SPILLWAY_FIELD(symbol, parameters) CuResult(*symbol) parameters = nullptr;
  SPILLWAY_HOOKED_CALLS(SPILLWAY_FIELD)
  SPILLWAY_ASKED_CALLS(SPILLWAY_FIELD)
#undef SPILLWAY_FIELD
};

namespace detail {
extern RealCalls real_calls;
extern std::atomic<bool> real_calls_found;
void find_real_calls();
}  // namespace detail

// Opens the driver's library if nobody has. The process ends with one line if there is none.
[[nodiscard]] inline const RealCalls& real() {
  if (!detail::real_calls_found.load(std::memory_order_acquire)) {
    detail::find_real_calls();
  }
  return detail::real_calls;
}

// Whether any hooked function goes by this name, with or without what tells its version.
[[nodiscard]] bool hooked_name(std::string_view name);
// What stands in front of the driver's function at this address; nullptr if nothing does.
[[nodiscard]] void* hook_of(const void* real_function);
// The same by symbol, for who asks for "the next one"; nullptr as well if the driver has no such
// function.
[[nodiscard]] void* hook_of_symbol(std::string_view symbol);

}  // namespace spillway::cuda
