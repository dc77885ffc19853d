// Device memory of the program. Pools are pool_hooks.cc's, managed memory is left to the driver
// (past_budget_hooks.cc), and what the program maps itself is mapped_memory_hooks.cc's. Layer:
// interpose, cuda.
#include <algorithm>

#include "interpose/cuda/captures.h"
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/implicit_waits.h"
#include "interpose/cuda/issue.h"
#include "interpose/cuda/libraries/torch_whole_segments.h"
#include "interpose/cuda/memory/context_memory.h"
#include "interpose/cuda/memory/driver_memory.h"
#include "interpose/cuda/memory/free_memory.h"
#include "interpose/cuda/memory/mapped_memory.h"
#include "interpose/cuda/memory/memory_pools.h"
#include "interpose/cuda/memory/out_of_memory.h"
#include "interpose/cuda/operands/pointer_tables.h"
#include "interpose/cuda/recording.h"

namespace spillway::cuda {
namespace {

CuResult answer(Result<std::uint64_t> made, Bytes bytes, CuAddress* address) {
  if (!made) {
    // What the program itself has said that a pool may have needs no line.
    if (made.error().code != ErrorCode::kInvalidInput) {
      say_out_of_memory(made.error(), bytes);
    }
    return CuResult::kOutOfMemory;
  }
  *address = *made;
  if (Recording* const recorded = recording()) {
    recorded->allocated(*made);
  }
  return CuResult::kSuccess;
}

void tell_recording_of_free(CuAddress address) {
  if (Recording* const recorded = recording()) {
    recorded->freed(address);
  }
}

// On a device that is not served, captured where nothing is, or from a pool that is not the
// space's.
template <typename Call>
CuResult from_driver(ProgramCall& here, CuAddress* address, Bytes bytes, const Call& call) {
  const CuResult result = here.driver(call);
  if (!here.inner() && result == CuResult::kSuccess) {
    driver_gave("cuMemAlloc on another device", DriverMemory::kAddress, *address, bytes, nullptr);
  }
  return result;
}

template <typename Call>
CuResult back_to_driver(ProgramCall& here, CuAddress address, const Call& call) {
  const CuResult result = here.driver(call);
  if (!here.inner() && result == CuResult::kSuccess) {
    driver_has_back(DriverMemory::kAddress, address);
  }
  return result;
}

// Usable by any stream at once, and therefore kept for none. An allocator of the program may divide
// it.
template <typename Call>
CuResult allocate(CuAddress* address, Bytes bytes, const Call& call) {
  ProgramCall here(CallKind::kAllocation);
  Session* const session =
      here.inner() || address == nullptr || bytes == 0 ? nullptr : session_for_allocation();
  if (session == nullptr) {
    return from_driver(here, address, bytes, call);
  }
  session->segments->tell_deaths();
  prefer_whole_segments(*session, bytes);
  const CuResult result = answer(session->heap->allocate(bytes, std::nullopt), bytes, address);
  if (result == CuResult::kSuccess) {
    session->segments->made(*address, bytes);
    note_context_memory(*address);
  } else {
    divide_again();
  }
  return result;
}

// `from`: a pool that is named.
template <typename Call>
CuResult allocate_on(CuStream stream, CuAddress* address, Bytes bytes,
                     std::optional<CuMemPool> from, const Call& call) {
  ProgramCall here(CallKind::kAllocation);
  Session* const session =
      here.inner() || address == nullptr || bytes == 0 ? nullptr : session_for_allocation();
  const auto pool = session == nullptr ? std::nullopt
                    : from             ? pool_of(*session, *from)
                                       : current_pool(*session);
  if (!pool) {
    return from && is_of_host(*from) ? here.driver(call) : from_driver(here, address, bytes, call);
  }
  if (captured(stream)) {
    return answer(allocate_captured(*session, bytes, stream), bytes, address);
  }
  // One handle for the streams of many threads is nobody's order.
  const bool on_thread_stream = is_per_thread(stream);
  return answer(
      session->heap->allocate(
          bytes, on_thread_stream ? std::nullopt : std::optional(canonical(stream)), *pool),
      bytes, address);
}

template <typename Call>
CuResult free_on(CuStream stream, CuAddress address, const Call& call) {
  ProgramCall here(CallKind::kFree);
  const Session* const session = here.seen_by();
  if (session == nullptr || !session->platform->memory().contains(address)) {
    return back_to_driver(here, address, call);
  }
  forget_context_memory(address);
  const bool stays = captured(stream);
  if (free_captured(*session, address, stays ? std::optional(stream) : std::nullopt)) {
    return CuResult::kSuccess;  // with what it holds addresses of
  }
  forget_carried(address);
  tell_recording_of_free(address);
  const bool on_thread_stream = is_per_thread(stream);
  return session->heap->free(address,
                             on_thread_stream ? std::nullopt : std::optional(canonical(stream)))
             ? CuResult::kSuccess
             : CuResult::kInvalidValue;
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

#define SPILLWAY_POOL_MEMORY(suffix, per_thread)                                                  \
  CuResult cuMemAllocAsync##suffix(CuAddress* address, std::size_t bytes, CuStream stream) {      \
    return cuda::allocate_on(cuda::meant(stream, per_thread), address, bytes, std::nullopt, [&] { \
      return cuda::real().cuMemAllocAsync##suffix(address, bytes, stream);                        \
    });                                                                                           \
  }                                                                                               \
  CuResult cuMemAllocFromPoolAsync##suffix(CuAddress* address, std::size_t bytes, CuMemPool pool, \
                                           CuStream stream) {                                     \
    return cuda::allocate_on(cuda::meant(stream, per_thread), address, bytes, pool, [&] {         \
      return cuda::real().cuMemAllocFromPoolAsync##suffix(address, bytes, pool, stream);          \
    });                                                                                           \
  }                                                                                               \
  CuResult cuMemFreeAsync##suffix(CuAddress address, CuStream stream) {                           \
    return cuda::free_on(cuda::meant(stream, per_thread), address,                                \
                         [&] { return cuda::real().cuMemFreeAsync##suffix(address, stream); });   \
  }

extern "C" {

SPILLWAY_POOL_MEMORY(, false)
SPILLWAY_POOL_MEMORY(_ptsz, true)

CuResult cuMemAlloc_v2(CuAddress* address, std::size_t bytes) {
  return cuda::allocate(address, bytes, [&] { return cuda::real().cuMemAlloc_v2(address, bytes); });
}

CuResult cuMemAllocPitch_v2(CuAddress* address, std::size_t* pitch_bytes, std::size_t width_bytes,
                            std::size_t height, unsigned element_bytes) {
  constexpr std::size_t kPitchStep = 512;  // as the driver rounds it up on today's devices
  const std::size_t pitch = spillway::round_up(width_bytes, kPitchStep);
  bool ours = true;
  const CuResult result = cuda::allocate(address, pitch * height, [&] {
    ours = false;
    return cuda::real().cuMemAllocPitch_v2(address, pitch_bytes, width_bytes, height,
                                           element_bytes);
  });
  if (ours && result == CuResult::kSuccess && pitch_bytes != nullptr) {
    *pitch_bytes = pitch;
  }
  return result;
}

CuResult cuMemFree_v2(CuAddress address) {
  const cuda::Session* const session = cuda::session();
  if (session == nullptr || !session->platform->memory().contains(address)) {
    const CuResult freed = cuda::wait_and_call([&] { return cuda::real().cuMemFree_v2(address); });
    if (freed == CuResult::kSuccess) {
      cuda::driver_has_back(cuda::DriverMemory::kAddress, address);
    }
    return freed;
  }
  cuda::ProgramCall here(CallKind::kFree);
  if (!session->heap->bytes_of(address)) {
    return CuResult::kInvalidValue;  // freed already, or in the midst of an allocation
  }
  if (const auto context = cuda::owner_of_memory(address)) {
    const CuResult waited = cuda::wait_as_a_free(here, *session, *context);
    if (waited != CuResult::kSuccess) {
      return waited;
    }
    cuda::forget_context_memory(address);
  }
  if (cuda::free_captured(*session, address, std::nullopt)) {
    return CuResult::kSuccess;
  }
  cuda::forget_carried(address);
  cuda::tell_recording_of_free(address);
  session->segments->freed(address);
  // It takes effect when what uses it has ended: of a pool's memory the program need not wait.
  return session->heap->free(address, std::nullopt) ? CuResult::kSuccess : CuResult::kInvalidValue;
}

CuResult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  cuda::ProgramCall here(CallKind::kQuestion);
  const CuResult result =
      here.driver([&] { return cuda::real().cuMemGetInfo_v2(free_bytes, total_bytes); });
  if (here.inner() || result != CuResult::kSuccess) {
    return result;
  }
  if (const cuda::Session* const session = cuda::session_for_allocation()) {
    const std::size_t used = session->heap->used_bytes() + cuda::MappedMemory::of_program().bytes();
    // PyTorch insists that what it uses and what is free do not exceed the total.
    *free_bytes = cuda::told_free_bytes(*session, used);
    *total_bytes = std::max(*total_bytes, used + *free_bytes);
  }
  return result;
}

}  // extern "C"
