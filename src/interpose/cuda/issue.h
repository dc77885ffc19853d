// How a call of the program that uses the space reaches the device: told to the platform before and
// after. Layer: interpose, cuda.
#pragma once

#include <functional>
#include <span>

#include "interpose/cuda/hooks/hook_table.h"
#include "interpose/cuda/recording.h"
#include "interpose/cuda/session.h"

namespace spillway::cuda {

// Which stream a call means by a handle: `per_thread` for the calls whose stream 0 is the thread's.
[[nodiscard]] inline CuStream meant(CuStream stream, bool per_thread) {
  const auto thread_stream =
      reinterpret_cast<CuStream>(kCuStreamPerThread);  // NOLINT(performance-no-int-to-ptr)
  return per_thread && stream == nullptr ? thread_stream : stream;
}

// Every thread has a default stream of its own behind one handle, and the platform knows streams by
// their handles: so nothing is left on one of them. Slow, and said once.
void end_on_thread_stream(CuStream stream);

// A call of which the platform need not be told, whatever it uses. Not where launches are recorded.
class Bypassed {
 public:
  Bypassed(const Session& session, CuStream stream)
      : platform_(recording() == nullptr && session.platform->bypass().begin_bypassed(stream)
                      ? session.platform
                      : nullptr) {}
  Bypassed(const Bypassed&) = delete;
  Bypassed& operator=(const Bypassed&) = delete;
  ~Bypassed() {
    if (platform_ != nullptr) {
      platform_->bypass().end_bypassed();
    }
  }
  explicit operator bool() const { return platform_ != nullptr; }

 private:
  CudaPlatform* platform_;
};

// Where the platform has to be told. `call` is given what before_launch gave.
template <typename Call>
CuResult issue_tracked(const Session& session, CudaLaunch what, const Call& call) {
  const bool on_thread_stream = is_per_thread(what.stream);
  what.needs_mapping |= on_thread_stream;
  Recording* const recorded = recording();
  if (recorded != nullptr) {
    recorded->announce(what.name);
  }
  const std::uint64_t launch = session.platform->launches().before_launch(what);
  const RecordedLaunch record = recorded == nullptr ? RecordedLaunch() : recorded->begin(what);
  const CuResult result = call(launch);
  if (recorded != nullptr) {
    recorded->end(record, what, result == CuResult::kSuccess);
  }
  if (on_thread_stream && launch != 0) {
    session.platform->launches().let_others_issue(launch);
    end_on_thread_stream(what.stream);
  }
  session.platform->launches().after_launch(launch, result == CuResult::kSuccess);
  return result;
}

template <typename Call>
CuResult issue_as(const Session& session, const CudaLaunch& what, const Call& call) {
  if (!what.exposes) {
    if (const Bypassed bypassed(session, what.stream); bypassed) {
      return call(0);
    }
  }
  return issue_tracked(session, what, call);
}

template <typename Call>
CuResult issue(const Session& session, const CudaLaunch& what, const Call& call) {
  return issue_as(session, what, [&](std::uint64_t /*launch*/) { return call(); });
}

// The call is not put on a stream, but the driver looks at the operands' addresses: they have their
// memory until it returns.
CuResult with_memory(const Session& session, std::span<const CudaOperand> operands,
                     const std::function<CuResult()>& call);
// The context has ended, and what of ours was in it for that.
void forget_call_stream(CuContext context);

}  // namespace spillway::cuda
