// See issue.h.
#include "front/cuda/issue.h"

#include <mutex>

namespace spillway::cuda {

void end_on_thread_stream(CuStream stream) {
  static std::atomic<bool> told{false};
  say_once(told,
           "the program uses per-thread default streams: each launch on one is waited for, "
           "which is slow; streams of its own would not be");
  (void)real().cuStreamSynchronize(stream);
}

// A launch of nothing on a stream of ours: it ends with the ticket behind it.
CuResult with_memory(const Session& session, std::span<const CudaOperand> operands,
                     const std::function<CuResult()>& call) {
  if (operands.empty()) {
    return call();
  }
  static std::mutex making;
  static CuStream ours = nullptr;
  {
    const std::scoped_lock lock(making);
    if (ours == nullptr) {
      const CuResult made = real().cuStreamCreate(&ours, kCuStreamNonBlocking);
      if (made != CuResult::kSuccess) {
        return made;
      }
    }
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
