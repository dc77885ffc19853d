// The GPU as the near device uses it: memory, and copies to and from it. Layer: platform, near.
// The seam at which tests put a GPU of their own.
#pragma once

#include "base/error.h"
#include "base/units.h"
#include "platform/near/memory/location.h"

namespace spillway::near {

// Thread-safe. Copies return when the bytes are there; what the program's own streams do with them
// is not waited for. Errors: one line, the driver's call and what it says.
class GpuMemory {
 public:
  GpuMemory() = default;
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  virtual ~GpuMemory() = default;

  virtual Result<Address> allocate(Bytes bytes) = 0;
  virtual Status free(Address start) = 0;
  virtual Status copy_in(Address to, const void* from, Bytes bytes) = 0;
  virtual Status copy_out(void* to, Address from, Bytes bytes) = 0;
  virtual Status copy_within(Address to, Address from, Bytes bytes) = 0;
};

}  // namespace spillway::near
