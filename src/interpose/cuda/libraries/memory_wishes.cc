// What a program says of its memory ahead of need; the operators of python/spillway/autovm and the
// plans of python/spillway/instrumented call it, as they call interpose/host/memory_wishes.cc on
// the host. Layer: interpose, cuda. Any address may be given, by any thread. Returns at once, and 1
// where it was the space's memory.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "interpose/cuda/session.h"
#include "platform/common/process/service_thread.h"

namespace spillway::cuda {
namespace {

std::uint64_t address_of(const void* start) { return reinterpret_cast<std::uintptr_t>(start); }

// nullptr where the memory is not the space's.
Session* session_of(const void* start) {
  Session* const here = session();
  return here != nullptr && here->platform->memory().contains(address_of(start)) ? here : nullptr;
}

int leave(const void* start, std::size_t bytes, std::optional<Tier> to) {
  const InService inside;
  Session* const here = session_of(start);
  if (here == nullptr) {
    return 0;
  }
  ProgramHints& hints = here->platform->hints();
  if (to && !hints.has_tier(*to)) {
    return -1;
  }
  hints.pre_evict(address_of(start), bytes, to);
  here->asked_pre_evict_bytes += bytes;
  return 1;
}

}  // namespace
}  // namespace spillway::cuda

// No calls of the program's: nothing is put on streams for them.
extern "C" {

int spillway_prefetch(void* start, std::size_t bytes) {
  const spillway::InService inside;
  spillway::cuda::Session* const here = spillway::cuda::session_of(start);
  if (here == nullptr) {
    return 0;
  }
  here->platform->hints().prefetch(spillway::cuda::address_of(start), bytes);
  here->asked_prefetch_bytes += bytes;
  return 1;
}

int spillway_pre_evict(void* start, std::size_t bytes) {
  return spillway::cuda::leave(start, bytes, std::nullopt);
}

// To storage if `storage`, else to host memory. -1: there is no such tier in this run.
int spillway_pre_evict_to(void* start, std::size_t bytes, int storage) {
  return spillway::cuda::leave(start, bytes,
                               storage != 0 ? spillway::Tier::kStorage : spillway::Tier::kHost);
}

}  // extern "C"
