// What every part of the CUDA platform is made of. Layer: platform, cuda.
// A part has one concern, and the state that only this concern needs. What several parts need is
// PlatformState's; one part calls another through PlatformParts. Functions that take the lock by
// reference, and those that say so, are called with the platform's lock held.
#pragma once

#include "platform/common/process/eager_lock.h"

namespace spillway::cuda {

struct PlatformParts;
struct PlatformState;

class PlatformPart {
 public:
  PlatformPart(const PlatformPart&) = delete;
  PlatformPart& operator=(const PlatformPart&) = delete;

 protected:
  using Lock = EagerLock;

  // Both outlive it, and are whole when the first function is called.
  PlatformPart(PlatformState& state, PlatformParts& parts) : state_(state), parts_(parts) {}
  ~PlatformPart() = default;

  PlatformState& state_;
  PlatformParts& parts_;
};

}  // namespace spillway::cuda
