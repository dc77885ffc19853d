// Calls that wait for the device although their names do not say so (docs/interposer.md). Layer:
// interpose, cuda.
#pragma once

#include "interpose/cuda/captures.h"
#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/recording.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {

// As cuMemFree does of its own memory: returns when all that was issued in this context before has
// ended. Refused where the driver refuses it beside a capture, which is spoilt then.
[[nodiscard]] CuResult wait_as_a_free(ProgramCall& here, const Session& session, CuContext context);

// A call of the driver's own that waits for everything and holds the context's lock meanwhile. What
// would satisfy the stream waits before that may need the lock: so it is waited for without it,
// first.
template <typename Call>
CuResult wait_and_call(const Call& call) {
  ProgramCall here(CallKind::kSynchronize);
  const Session* const session = here.seen_by();
  if (session == nullptr) {
    return here.driver(call);
  }
  session->platform->streams().before_wait(std::nullopt);
  if (!captures_under_way()) {
    (void)here.driver([] { return real().cuCtxSynchronize(); });  // the call itself tells of errors
  }
  const CuResult result = here.driver(call);
  session->platform->streams().after_wait(std::nullopt);
  if (Recording* const recorded = recording()) {
    recorded->synchronized();
  }
  return result;
}

}  // namespace spillway::cuda
