// What every part of the CUDA platform is made of. Layer: platform, cuda.
// A part has one concern, and the state that only this concern needs. What several parts need is
// PlatformState's; one part calls another through PlatformParts.
#pragma once

#include "base/thread_annotations.h"

namespace spillway::cuda {

class PlatformLock;
struct PlatformParts;
struct PlatformState;

// Stands for the lock of a platform, PlatformState's, where it is said who holds it: clang cannot
// see that all parts of a platform share one. A function that needs it may let it go for a while if
// it waits or calls the driver, as its text says.
class SPILLWAY_CAPABILITY("mutex") PlatformLockRole {};
inline PlatformLockRole platform_lock;

class PlatformPart {
 public:
  PlatformPart(const PlatformPart&) = delete;
  PlatformPart& operator=(const PlatformPart&) = delete;

 protected:
  using Lock = PlatformLock;

  // Both outlive it, and are whole when the first function is called.
  PlatformPart(PlatformState& state, PlatformParts& parts) : state_(state), parts_(parts) {}
  ~PlatformPart() = default;

  PlatformState& state_;
  PlatformParts& parts_;
};

}  // namespace spillway::cuda
