// Memory pools of the program. The driver has them, and gives nothing of those whose memory is the
// space's: they are accounts of the heap. Others (the host's, another device's, imported ones) are
// the driver's altogether. Layer: interpose, cuda. Thread-safe.
#pragma once

#include <optional>

#include "interpose/cuda/call_types.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {

struct NotedPool {
  CuAllocationType type = CuAllocationType::kPinned;
  CuLocation location{};
  Bytes most_bytes = 0;                                    // 0: as much as there is
  std::optional<DeviceHeap::Pool> account = std::nullopt;  // once it is asked for
};

// The driver has made it.
void note_pool(CuMemPool handle, const NotedPool& pool);
// Before the driver is told to destroy it, since another may be given its handle at once: what is
// known of it, which `note_pool` takes back if the driver refuses. nullopt: nothing is.
[[nodiscard]] std::optional<NotedPool> take_pool(CuMemPool handle);
// The device may give from another pool than before what names none.
void current_pool_changes();
// The device has been reset, and what pools gave is freed: what they tell begins anew, and its own
// pool may be another. The program's own pools stay known, should the driver have them still.
void pools_begin_anew(const Session& session);

// The heap's account of it; nullopt: the driver serves it.
[[nodiscard]] std::optional<DeviceHeap::Pool> pool_of(const Session& session, CuMemPool handle);
// Of that from which the session's device gives what names none.
[[nodiscard]] std::optional<DeviceHeap::Pool> current_pool(const Session& session);
// nullptr: it is none's.
[[nodiscard]] CuMemPool handle_of_pool(DeviceHeap::Pool account);
// Whether it is known that what the driver gives of it is no device's.
[[nodiscard]] bool is_of_host(CuMemPool handle);

}  // namespace spillway::cuda
