// Device memory that is a context's (cuMemAlloc and its like), not a pool's: freeing it waits, and
// it goes with its context. Layer: interpose, cuda. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "interpose/cuda/call_types.h"

namespace spillway::cuda {

// It has been allocated in the calling thread's context.
void note_context_memory(std::uint64_t address);
// Whose it is; nullopt if it is a pool's, or nobody's.
[[nodiscard]] std::optional<CuContext> owner_of_memory(std::uint64_t address);
// It is about to be freed.
void forget_context_memory(std::uint64_t address);
// The context has ended: all that was its, which is to be freed.
[[nodiscard]] std::vector<std::uint64_t> take_memory_of(CuContext context);

}  // namespace spillway::cuda
