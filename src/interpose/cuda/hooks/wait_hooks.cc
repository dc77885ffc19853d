// Where the program waits for its device, and what orders its streams. Layer: interpose, cuda.
#include <mutex>
#include <optional>

#include "interpose/cuda/captures.h"
#include "interpose/cuda/illegal_access.h"
#include "interpose/cuda/implicit_waits.h"
#include "interpose/cuda/issue.h"
#include "interpose/cuda/operands/host_lists.h"
#include "interpose/cuda/operands/kernel_layouts.h"
#include "interpose/cuda/replay/replay_memory.h"

namespace spillway::cuda {
namespace {

// `stream`: what it waits for; nullopt for everything.
template <typename Call>
CuResult wait(std::optional<CuStream> stream, const Call& call) {
  ProgramCall here(CallKind::kSynchronize);
  const Session* const session = here.seen_by();
  if (session == nullptr) {
    return here.driver(call);
  }
  session->platform->streams().before_wait(stream);
  const CuResult result = here.driver(call);
  session->platform->streams().after_wait(stream);
  note_result(*session, result);
  if (Recording* const recorded = recording()) {
    recorded->synchronized();
  }
  return result;
}

// What stands on a stream that is captured happens when its graph runs, or never. The platform
// hears of it first: another thread may wait for the event as soon as the driver knows it.
template <typename Call>
CuResult record(CuEvent event, CuStream stream, const Call& call) {
  ProgramCall here(CallKind::kEventRecord);
  const Session* const session = here.seen_by();
  if (session == nullptr || captured(stream)) {
    return here.driver(call);
  }
  const auto in_order = session->platform->streams().in_order(stream);
  session->platform->streams().recorded(event, stream);
  const CuResult result = here.driver(call);
  if (result != CuResult::kSuccess) {
    session->platform->streams().not_recorded(event);
  }
  return result;
}

template <typename Call>
CuResult wait_for_event(CuStream stream, CuEvent event, const Call& call) {
  ProgramCall here(CallKind::kStreamWait);
  const Session* const session = here.seen_by();
  // With this call a stream may become one that is captured: what we still have to put on it would
  // be captured, too.
  if (session != nullptr && captures_under_way()) {
    session->platform->streams().before_wait(std::nullopt);
  }
  const auto in_order = session != nullptr && !captured(stream)
                            ? session->platform->streams().in_order(stream)
                            : std::unique_lock<Mutex>();
  const CuResult result = here.driver(call);
  if (session != nullptr && result == CuResult::kSuccess && !captured(stream)) {
    session->platform->streams().waits_for(event, stream);
  }
  return result;
}

template <typename Call>
CuResult destroy(CuStream stream, const Call& call) {
  ProgramCall here(CallKind::kOther);
  if (const Session* const session = here.seen_by()) {
    session->platform->streams().destroyed(stream);
    session->heap->forget(stream);
    forget_kept_memory(stream);
  }
  return here.driver(call);
}

template <typename Call>
CuResult unload(const Call& call) {
  tell_that_code_ends();
  const CuResult result = wait(std::nullopt, call);
  forget_kernel_layouts();
  return result;
}

}  // namespace
}  // namespace spillway::cuda

namespace cuda = spillway::cuda;
using namespace spillway::cuda;  // NOLINT(google-build-using-namespace): its types, in signatures

#define SPILLWAY_STREAM_WAITS(suffix, per_thread)                                           \
  CuResult cuStreamSynchronize##suffix(CuStream stream) {                                   \
    return cuda::wait(cuda::meant(stream, per_thread),                                      \
                      [&] { return cuda::real().cuStreamSynchronize##suffix(stream); });    \
  }                                                                                         \
  CuResult cuEventRecord##suffix(CuEvent event, CuStream stream) {                          \
    return cuda::record(event, cuda::meant(stream, per_thread),                             \
                        [&] { return cuda::real().cuEventRecord##suffix(event, stream); }); \
  }                                                                                         \
  CuResult cuEventRecordWithFlags##suffix(CuEvent event, CuStream stream, unsigned flags) { \
    return cuda::record(event, cuda::meant(stream, per_thread), [&] {                       \
      return cuda::real().cuEventRecordWithFlags##suffix(event, stream, flags);             \
    });                                                                                     \
  }                                                                                         \
  CuResult cuStreamWaitEvent##suffix(CuStream stream, CuEvent event, unsigned flags) {      \
    return cuda::wait_for_event(cuda::meant(stream, per_thread), event, [&] {               \
      return cuda::real().cuStreamWaitEvent##suffix(stream, event, flags);                  \
    });                                                                                     \
  }

extern "C" {

SPILLWAY_STREAM_WAITS(, false)
SPILLWAY_STREAM_WAITS(_ptsz, true)

CuResult cuEventSynchronize(CuEvent event) {
  return cuda::wait(std::nullopt, [&] { return cuda::real().cuEventSynchronize(event); });
}
CuResult cuCtxSynchronize() {
  return cuda::wait(std::nullopt, [] { return cuda::real().cuCtxSynchronize(); });
}
CuResult cuCtxSynchronize_v2(CuContext context) {
  return cuda::wait(std::nullopt, [&] { return cuda::real().cuCtxSynchronize_v2(context); });
}
CuResult cuMemFreeHost(void* memory) {
  cuda::forget_pinned(memory);
  return cuda::wait_and_call([&] { return cuda::real().cuMemFreeHost(memory); });
}
CuResult cuMemHostUnregister(void* memory) {
  cuda::forget_pinned(memory);
  return cuda::wait_and_call([&] { return cuda::real().cuMemHostUnregister(memory); });
}
CuResult cuModuleUnload(CuModule module) {
  return cuda::unload([&] { return cuda::real().cuModuleUnload(module); });
}
CuResult cuLibraryUnload(CuLibrary library) {
  return cuda::unload([&] { return cuda::real().cuLibraryUnload(library); });
}
CuResult cuStreamDestroy(CuStream stream) {
  return cuda::destroy(stream, [&] { return cuda::real().cuStreamDestroy(stream); });
}
CuResult cuStreamDestroy_v2(CuStream stream) {
  return cuda::destroy(stream, [&] { return cuda::real().cuStreamDestroy_v2(stream); });
}

}  // extern "C"
