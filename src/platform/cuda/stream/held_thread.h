// A thread of the program that waits in our code. Layer: platform, cuda.
#pragma once

#include "platform/common/process/clock.h"
#include "platform/cuda/platform_state.h"

namespace spillway::cuda {

// With the platform's lock held when it is made and when it goes; how long that took is counted.
class HeldThread {
 public:
  HeldThread(PlatformState& state, WorkTimes::What why)
      : state_(state), why_(why), since_ns_(now_ns()) {
    ++state_.held;
  }
  ~HeldThread() {
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
