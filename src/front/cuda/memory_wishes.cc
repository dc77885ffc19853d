// What a program says of its memory ahead of need; the operators of python/spillway/autovm call it,
// as they call front/preload/memory_wishes.cc on the host. Layer: front, cuda. Any address may be
// given, by any thread. Returns at once, and 1 where it was the space's memory.
#include <cstddef>
#include <cstdint>

#include "front/cuda/session.h"
#include "platform/common/service_thread.h"

extern "C" {

// No call of the program's: nothing is put on streams for it.
int spillway_prefetch(void* start, std::size_t bytes) {
  const spillway::InService inside;
  spillway::cuda::Session* const session = spillway::cuda::session();
  if (session == nullptr ||
      !session->platform->prefetch(reinterpret_cast<std::uintptr_t>(start), bytes)) {
    return 0;
  }
  session->asked_prefetch_bytes += bytes;
  return 1;
}

int spillway_pre_evict(void* start, std::size_t bytes) {
  const spillway::InService inside;
  spillway::cuda::Session* const session = spillway::cuda::session();
  if (session == nullptr ||
      !session->platform->pre_evict(reinterpret_cast<std::uintptr_t>(start), bytes)) {
    return 0;
  }
  session->asked_pre_evict_bytes += bytes;
  return 1;
}

}  // extern "C"
