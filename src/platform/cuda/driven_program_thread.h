// What the program's thread does in more than one of driven_platform's files. Layer: platform,
// cuda.
#pragma once

#include "platform/common/process/clock.h"
#include "platform/cuda/driven_platform.h"

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

class DrivenPlatform::Held {
 public:
  Held(DrivenPlatform& platform, WorkTimes::What why)
      : platform_(platform), why_(why), since_ns_(now_ns()) {
    ++platform_.held_;
  }
  ~Held() {
    --platform_.held_;
    platform_.queue_->times().add(why_, now_ns() - since_ns_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  DrivenPlatform& platform_;
  WorkTimes::What why_;
  TimeNs since_ns_;
};

template <typename Call>
CuResult DrivenPlatform::in_context(CuContext context, const Call& call) const {
  CuContext current = nullptr;
  (void)driver_.context_get_current(&current);
  if (current == context) {
    return call();
  }
  if (const CuResult pushed = driver_.context_push(context); pushed != CuResult::kSuccess) {
    return pushed;
  }
  const CuResult result = call();
  (void)driver_.context_pop(&current);
  return result;
}

}  // namespace spillway::cuda
