// Whether the program can go on: what ends the run, and what people are only told. Layer: platform,
// host. With the platform's lock held.
#pragma once

#include "platform/host/host_state.h"

namespace spillway::host {

class Progress {
 public:
  // After whatever may have brought the engine to a standstill.
  void check(HostState& state) SPILLWAY_REQUIRES(state.mutex);

 private:
  void warn_of_waiting(const HostState& state) SPILLWAY_REQUIRES(state.mutex);

  bool warned_ = false;
};

}  // namespace spillway::host
