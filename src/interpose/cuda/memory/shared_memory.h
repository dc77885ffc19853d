// Memory of the space in other processes, and theirs in this one. Layer: interpose, cuda.
// docs/interposer.md. Thread-safe.
#pragma once

#include <optional>

#include "interpose/cuda/memory/shared_handle.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {

// Whether other processes can have the allocation of the program that starts there.
[[nodiscard]] bool can_be_shared(const Session& session, std::uint64_t start);
// What cuIpcGetMemHandle gives for it. From then on it stays on the device until it is freed.
[[nodiscard]] CuResult share(const Session& session, const AddressRange& range,
                             CuIpcHandle& handle);

// What cuIpcOpenMemHandle does with a handle that is ours, and cuIpcCloseMemHandle with an address
// that `open_shared` gave; nullopt: it is none. `wait` waits for all that the program has on its
// device.
[[nodiscard]] CuResult open_shared(const SharedHandle& handle, CuAddress& address);
using WaitForDevice = CuResult (*)();
[[nodiscard]] std::optional<CuResult> close_shared(CuAddress address, WaitForDevice wait);

// Of all that is open now: the driver may say that it is this process's.
[[nodiscard]] Bytes opened_bytes();

// The driver for threads and calls of ours.
[[nodiscard]] const Driver& own_driver();
// By which processes know this one; 0 until it has shared something.
[[nodiscard]] std::uint64_t own_token();

}  // namespace spillway::cuda
