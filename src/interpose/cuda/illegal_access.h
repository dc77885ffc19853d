// Where the device reports an illegal access: what it may be. Layer: interpose, cuda. Thread-safe.
#pragma once

#include "interpose/cuda/session.h"

namespace spillway::cuda {

// Says so once, if memory has left the device and kernels have been launched that may follow
// addresses.
void tell_of_illegal_access(const Session& session);

// A call that waits for the device, or is put on a stream, has given this.
inline void note_result(const Session& session, CuResult result) {
  if (result == CuResult::kIllegalAddress) [[unlikely]] {
    tell_of_illegal_access(session);
  }
}

}  // namespace spillway::cuda
