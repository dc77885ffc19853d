// What the functions of near.h share: devices behind handles, and answers of the device as those of
// the C API. Layer: capi. Thread-safe.
#pragma once

#include <memory>

#include "capi/failure.h"
#include "capi/handles.h"
#include "platform/near/device.h"
#include "spillway/near.h"

// What a handle points to. It has an address, which is never given out twice, and nothing else.
struct spillwayNear_st {};

namespace spillway::capi {

[[nodiscard]] Handles<spillwayNear_t, near::Device>& near_devices();

// Runs the body with the device that the handle stands for.
template <typename Body>
spillwayError_t on_device(spillwayNear_t handle, Body body) {
  return guarded([&]() -> Outcome<void> {
    if (handle == nullptr) {
      return is_null("near");
    }
    const std::shared_ptr<near::Device> device = near_devices().find(handle);
    if (device == nullptr) {
      return fail(spillwayErrorInvalidValue, "the near device does not exist; has it been closed?");
    }
    return body(*device);
  });
}

[[nodiscard]] inline Outcome<void> told(const Status& status) {
  return status ? Outcome<void>{} : fail(status.error(), spillwayErrorNotSupported);
}

// Puts what was asked for where the caller wants it.
template <typename T, typename To>
Outcome<void> given(const Result<T>& result, To* to) {
  if (!result) {
    return fail(result.error(), spillwayErrorNotSupported);
  }
  *to = *result;
  return {};
}

}  // namespace spillway::capi
