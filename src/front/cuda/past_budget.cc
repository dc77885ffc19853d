// See past_budget.h.
#include "front/cuda/past_budget.h"

#include <fmt/format.h>

#include <atomic>

#include "front/cuda/session.h"

namespace spillway::cuda {

void took_past_budget(std::string_view call, Bytes bytes, const void* /*caller*/) {
  static std::atomic<bool> told{false};
  say_once(told, fmt::format("{} of device memory were taken past the budget by {}",
                             format_bytes(bytes), call));
}

void gave_back_past_budget(std::string_view /*call*/, Bytes /*bytes*/) {}

}  // namespace spillway::cuda
