// The space of a program on a GPU: made at its first allocation, described at its end. Layer:
// interpose, cuda.
#pragma once

#include <atomic>

#include "heap/device_heap.h"
#include "heap/segments.h"
#include "interpose/cuda/call_times.h"
#include "interpose/cuda/call_types.h"
#include "platform/common/process/service_thread.h"
#include "platform/cuda/cuda_platform.h"
#include "runtime/record/run_record.h"

namespace spillway::cuda {

struct Session {
  CudaPlatform* platform = nullptr;
  DeviceHeap* heap = nullptr;
  Segments* segments = nullptr;  // of the heap's memory, those that a caching allocator divides
  CuDevice device = 0;
  CuContext context = nullptr;  // the program's, when it was made
  // What the program has named in prefetches and pre-evictions of its own.
  std::atomic<Bytes> asked_prefetch_bytes{0};
  std::atomic<Bytes> asked_pre_evict_bytes{0};
};

namespace detail {
extern std::atomic<Session*> the_session;
}

// nullptr where there is none: nothing has been allocated yet, or this is the child of a fork.
[[nodiscard]] inline Session* session() {
  return detail::the_session.load(std::memory_order_acquire);
}
// The same, made now if there is none. nullptr if the calling thread's device is not the one that
// is served (the first that was used), if it has none, or in the child of a fork. Ends the process
// with one line if what was asked for cannot be had.
[[nodiscard]] Session* session_for_allocation();

// This device of the program's may use the space's memory from now on, whenever there is one.
void share_with(CuDevice device);

// A call of the program, as long as it lasts. What the driver calls of itself meanwhile, and what
// we call, is not the program's; nor is what a library calls that threads of ours use (libcufile).
class ProgramCall {
 public:
  explicit ProgramCall(CallKind kind)
      : outer_(inside || in_service()),
        timer_(outer_ ? nullptr : detail::call_times.load(std::memory_order_acquire), kind) {
    inside = true;
  }
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;
  ~ProgramCall() { inside = outer_; }
  // The session, if it is to see this call.
  [[nodiscard]] Session* seen_by() const { return outer_ ? nullptr : session(); }
  [[nodiscard]] bool inner() const { return outer_; }
  // What the driver's own call gives, which is timed by itself where calls are.
  template <typename Call>
  auto driver(const Call& call) {
    return timer_.driver(call);
  }

 private:
  __attribute__((tls_model("initial-exec"))) static constinit thread_local bool inside;
  bool outer_;
  CallTimer timer_;
};

// Sees to it that the process leaves its record, whether or not it ever has a space.
void record_at_end();

// Of this process, up to now; of one without a space, what it has taken past its budget.
[[nodiscard]] RunRecord record_so_far();

// Before code is unloaded or a context ends, where that is the program's doing.
void tell_that_code_ends();

// Says a line once in the process's life: `told` is who says it.
void say_once(std::atomic<bool>& told, std::string_view line);
// The same for a call that cannot be served, and its answer.
CuResult refuse(std::atomic<bool>& told, std::string_view call, std::string_view reason);

}  // namespace spillway::cuda
