// See implicit_waits.h.
#include "interpose/cuda/implicit_waits.h"

namespace spillway::cuda {
namespace {

// Beside a capture nobody may wait for a whole context, and whether the driver itself would depends
// on the modes of captures and threads. So it is asked, by a call that is treated as a free and
// costs no device memory.
CuResult free_nothing() {
  void* memory = nullptr;
  const CuResult made = real().cuMemHostAlloc(&memory, 1, 0);
  return made == CuResult::kSuccess ? real().cuMemFreeHost(memory) : made;
}

// Makes it the thread's while it lives, if it is not.
class CurrentContext {
 public:
  explicit CurrentContext(CuContext context) {
    CuContext current = nullptr;
    (void)real().cuCtxGetCurrent(&current);
    pushed_ = context != nullptr && current != context &&
              real().cuCtxPushCurrent_v2(context) == CuResult::kSuccess;
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext() {
    if (pushed_) {
      CuContext popped = nullptr;
      (void)real().cuCtxPopCurrent_v2(&popped);
    }
  }

 private:
  bool pushed_ = false;
};

}  // namespace

CuResult wait_as_a_free(ProgramCall& here, const Session& session, CuContext context) {
  const CurrentContext in(context);
  session.platform->streams().before_wait(std::nullopt);
  const CuResult result =
      here.driver([] { return captures_under_way() ? free_nothing() : real().cuCtxSynchronize(); });
  session.platform->streams().after_wait(std::nullopt);
  if (Recording* const recorded = recording()) {
    recorded->synchronized();
  }
  return result;
}

}  // namespace spillway::cuda
