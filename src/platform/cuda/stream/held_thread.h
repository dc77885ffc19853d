// A thread of the program that waits in our code. Layer: platform, cuda.
#pragma once

#include "platform/common/process/clock.h"
#include "platform/cuda/platform_state.h"

namespace spillway::cuda {

// While it lives the platform knows that a thread is held. The time from its making to its end is
// counted.
class HeldThread {
 public:
  HeldThread(PlatformState& state, WorkTimes::What why) SPILLWAY_REQUIRES(platform_lock)
      : state_(state), why_(why), since_ns_(now_ns()) {
    ++state_.held;
  }
  ~HeldThread() SPILLWAY_REQUIRES(platform_lock) {
    --state_.held;
    state_.queue->times().add(why_, now_ns() - since_ns_);
  }
  HeldThread(const HeldThread&) = delete;
  HeldThread& operator=(const HeldThread&) = delete;

 private:
  PlatformState& state_;
  WorkTimes::What why_;
  TimeNs since_ns_;
};

}  // namespace spillway::cuda
