// What PyTorch's allocator says of its tensors, said by a program that is none. Test program.
#pragma once

#include <dlfcn.h>

#include "device.h"

namespace spillway::cuda::test {

// As PyTorch's allocator says that a tensor has come (bytes > 0), or gone.
inline void report_tensor(const Device& device, CuAddress address, std::int64_t bytes) {
  struct Place {
    std::int8_t type;
    std::int8_t index;
  };
  using Report = void (*)(CuAddress, std::int64_t, std::size_t, std::size_t, Place);
  const auto report = reinterpret_cast<Report>(
      ::dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"));
  device.require(report != nullptr, "the library is told of tensors");
  report(address, bytes, 0, 0, {.type = 1, .index = 0});
}

}  // namespace spillway::cuda::test
