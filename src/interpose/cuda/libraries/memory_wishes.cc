// What a program says of its memory ahead of need; the operators of python/spillway/autovm call it,
// as they call interpose/host/memory_wishes.cc on the host. Layer: interpose, cuda. Any address may
// be given, by any thread. Returns at once, and 1 where it was the space's memory.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "interpose/cuda/session.h"
#include "platform/common/process/service_thread.h"

namespace {

using spillway::cuda::Session;

// No call of the program's: nothing is put on streams for it.
int ask(void* start, std::size_t bytes,
        bool (spillway::cuda::ProgramHints::*how)(std::uint64_t, spillway::Bytes),
        std::atomic<spillway::Bytes> Session::*asked_bytes) {
  const spillway::InService inside;
  Session* const session = spillway::cuda::session();
  if (session == nullptr ||
      !(session->platform->hints().*how)(reinterpret_cast<std::uintptr_t>(start), bytes)) {
    return 0;
  }
  session->*asked_bytes += bytes;
  return 1;
}

}  // namespace

extern "C" {

int spillway_prefetch(void* start, std::size_t bytes) {
  return ask(start, bytes, &spillway::cuda::ProgramHints::prefetch, &Session::asked_prefetch_bytes);
}

int spillway_pre_evict(void* start, std::size_t bytes) {
  return ask(start, bytes, &spillway::cuda::ProgramHints::pre_evict,
             &Session::asked_pre_evict_bytes);
}

}  // extern "C"
