// See issue.h.
#include "interpose/cuda/issue.h"

#include <unordered_map>

#include "base/mutex.h"

namespace spillway::cuda {

void end_on_thread_stream(CuStream stream) {
  static std::atomic<bool> told{false};
  say_once(told,
           "the program uses per-thread default streams: each launch on one is waited for, "
           "which is slow; streams of its own would not be");
  (void)real().cuStreamSynchronize(stream);
}

namespace {

// Of ours, one in each context.
struct CallStreams {
  Mutex mutex;
  std::unordered_map<CuContext, CuStream> of SPILLWAY_GUARDED_BY(mutex);
};
CallStreams& call_streams() {
  static auto* const all = new CallStreams;  // threads of the program may run until the very end
  return *all;
}

}  // namespace

void forget_call_stream(CuContext context) {
  const MutexLock lock(call_streams().mutex);
  call_streams().of.erase(context);
}

// A launch of nothing on a stream of ours: it ends with the completion marker behind it.
CuResult with_memory(const Session& session, std::span<const CudaOperand> operands,
                     const std::function<CuResult()>& call) {
  if (operands.empty()) {
    return call();
  }
  CuContext context = nullptr;
  (void)real().cuCtxGetCurrent(&context);
  CuStream ours = nullptr;
  {
    const MutexLock lock(call_streams().mutex);
    CuStream& stream = call_streams().of[context];
    if (stream == nullptr) {
      const CuResult made = real().cuStreamCreate(&stream, kCuStreamNonBlocking);
      if (made != CuResult::kSuccess) {
        return made;
      }
    }
    ours = stream;
  }
  return issue(session,
               {.stream = ours,
                .hash = {},
                .name = "a call that is recorded",
                .operands = operands,
                .needs_mapping = true},
               call);
}

}  // namespace spillway::cuda
