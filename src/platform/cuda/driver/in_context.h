// Calls of the driver in a context that need not be the calling thread's, and what their errors say
// of that context. Layer: platform, cuda.
#pragma once

#include "platform/cuda/driver/driver.h"

namespace spillway::cuda {

// Errors after which a context runs nothing any more: of a device that has failed, a kernel that
// has, a context or driver that is gone. All others are about the call.
inline bool context_is_lost(CuResult result) {
  switch (result) {
    case CuResult::kDeinitialized:
    case CuResult::kInvalidContext:
    case CuResult::kEccUncorrectable:
    case CuResult::kNvlinkUncorrectable:
    case CuResult::kContained:
    case CuResult::kMpsClientTerminated:
    case CuResult::kUnknown:
    case CuResult::kContextIsDestroyed:
      return true;
    default:
      return kernel_has_failed(result);
  }
}

// Runs `call`, which gives a CuResult, with that context current.
template <typename Call>
CuResult in_context(const Driver& driver, CuContext context, const Call& call) {
  CuContext current = nullptr;
  (void)driver.context_get_current(&current);
  if (current == context) {
    return call();
  }
  if (const CuResult pushed = driver.context_push(context); pushed != CuResult::kSuccess) {
    return pushed;
  }
  const CuResult result = call();
  (void)driver.context_pop(&current);
  return result;
}

}  // namespace spillway::cuda
