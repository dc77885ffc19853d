// Memory of the driver's own for a handle of the program's. Layer: interpose, cuda.
#pragma once

#include <map>

#include "interpose/cuda/session.h"

namespace spillway::cuda {

// Whether the driver would make a handle with these properties at all: asked once of each kind.
[[nodiscard]] CuResult try_properties(const CuAllocationProperties& properties);
// Whether the code there is a library's that gives its memory to other processes, devices and
// network cards, which nobody would see: NCCL and NVSHMEM.
[[nodiscard]] bool gives_memory_away(const void* code);
// Code of PyTorch's allocator: each of its reservations is larger than the device, and it takes for
// granted that none is ever full.
[[nodiscard]] bool fills_reservations(const void* code);
// What an allocation of the space holds, into memory of the driver's that is mapped nowhere. Waits
// for the device.
[[nodiscard]] CuResult copy_to_driver(const Session& session, CuMemHandle to, CuAddress from,
                                      Bytes bytes);
// Mapped at an address of the space where nothing is, for those who have access.
[[nodiscard]] CuResult map_driver_memory(CuAddress address, Bytes bytes, CuMemHandle handle,
                                         const std::map<int, CuAccess>& access);

}  // namespace spillway::cuda
