// What a program says of its memory ahead of need; the operators of python/spillway/autovm call it.
// Layer: interpose, host. Memory that is not the space's is left alone, so it may be called with
// any address. Returns at once, and 1 where it was the space's memory.
#include <cstddef>

#include "interpose/host/session.h"
#include "platform/common/process/service_thread.h"

namespace spillway::preload {
namespace {

ProgramSpace* space_of(const void* start, std::size_t bytes) {
  const Session* const here = session(false);
  return here != nullptr && bytes > 0 && here->space->platform().contains(start) ? here->space
                                                                                 : nullptr;
}

}  // namespace
}  // namespace spillway::preload

extern "C" {

int spillway_prefetch(void* start, std::size_t bytes) {
  const spillway::InService inside;
  spillway::ProgramSpace* const space = spillway::preload::space_of(start, bytes);
  if (space == nullptr) {
    return 0;
  }
  space->prefetch(start, bytes);
  return 1;
}

int spillway_pre_evict(void* start, std::size_t bytes) {
  const spillway::InService inside;
  spillway::ProgramSpace* const space = spillway::preload::space_of(start, bytes);
  if (space == nullptr) {
    return 0;
  }
  space->pre_evict(start, bytes);
  return 1;
}

// To storage if `storage`, else to host memory. -1: there is no such tier in this run.
int spillway_pre_evict_to(void* start, std::size_t bytes, int storage) {
  const spillway::InService inside;
  const spillway::Tier to = storage != 0 ? spillway::Tier::kStorage : spillway::Tier::kHost;
  spillway::ProgramSpace* const space = spillway::preload::space_of(start, bytes);
  if (space == nullptr) {
    return 0;
  }
  return space->pre_evict(start, bytes, to) ? 1 : -1;
}

}  // extern "C"
