// What every part of the CUDA platform is made of. Layer: platform, cuda.
// A part has one concern, and the state that only this concern needs. What several parts need is
// PlatformState's; one part calls another through PlatformParts.
#pragma once

#include "base/thread_annotations.h"

namespace spillway::cuda {

class PlatformLock;
struct PlatformParts;
struct PlatformState;

// Names the platform's lock in annotations: clang cannot see that all parts of a platform share
// one. "Lets go" says that a function that needs the lock lets it go for a while and has it again
// when it returns; what the lock guards may have changed by then.
class SPILLWAY_CAPABILITY("mutex") PlatformLockRole {};
inline PlatformLockRole platform_lock;

class PlatformPart {
 public:
  PlatformPart(const PlatformPart&) = delete;
  PlatformPart& operator=(const PlatformPart&) = delete;

 protected:
  using Lock = PlatformLock;

  // Both need not be made yet, and are when the first function is called.
  PlatformPart(PlatformState& state, PlatformParts& parts) : state_(state), parts_(parts) {}
  ~PlatformPart() = default;

  PlatformState& state_;
  PlatformParts& parts_;
};

}  // namespace spillway::cuda
