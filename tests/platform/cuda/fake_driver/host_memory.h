// Which host memory is pinned. Fake driver.
// The device sees it at the host's own addresses, in every context.
#pragma once

#include <cstdint>
#include <map>

#include "platform/cuda/driver/driver_types.h"
#include "report.h"

namespace fake_cuda {

using spillway::cuda::CuResult;

class HostMemory {
 public:
  explicit HostMemory(Report& report) : report_(&report) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  // Both are a context's, and end with it.
  CuResult allocate(std::uint64_t bytes, const void* context, void** memory);
  CuResult pin(void* memory, std::uint64_t bytes, const void* context);
  // What was allocated, or what was pinned: kSuccess if there is such.
  CuResult known(const char* call, void* memory, bool allocated);
  void forget(void* memory);
  void forget_those_of(const void* context);

  // All of it, in one piece.
  [[nodiscard]] bool pinned(std::uint64_t address, std::uint64_t bytes) const;

 private:
  struct Piece {
    std::uint64_t bytes;
    bool allocated;
    const void* context;
  };
  Report* report_;
  std::map<std::uint64_t, Piece> pieces_;
};

}  // namespace fake_cuda
