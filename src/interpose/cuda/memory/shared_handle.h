// The 64 bytes by which other processes know memory of the space: what stands in them in place of
// the driver's. Layer: interpose, cuda. docs/interposer.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "interpose/cuda/call_types.h"

namespace spillway::cuda {

struct SharedHandle {
  std::int32_t process = 0;  // that has the memory; for people
  std::uint64_t token = 0;   // of that process: no other has it
  std::uint64_t number = 0;  // ExportedMemory::exported

  [[nodiscard]] CuIpcHandle bytes() const;
  // nullopt: it is not ours.
  [[nodiscard]] static std::optional<SharedHandle> from(const CuIpcHandle& bytes);
  // Of the socket at which that process is asked.
  [[nodiscard]] std::string socket_name() const;
};

}  // namespace spillway::cuda
