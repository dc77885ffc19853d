// See graph_launch_order.h.
#include "interpose/cuda/graphs/graph_launch_order.h"

#include <algorithm>

#include "interpose/cuda/captures.h"
#include "interpose/cuda/hooks/hook_table.h"

namespace spillway::cuda {

GraphLaunchOrder::~GraphLaunchOrder() {
  if (event_ != nullptr && made_before_ == graph_handles_forgotten()) {
    (void)real().cuEventDestroy_v2(event_);
  }
}

// Also on the same stream, where it costs nothing: a handle may be another stream's by now.
CuResult GraphLaunchOrder::wait_for_last(const Session& session, CuStream stream) const {
  if (!recorded_) {
    return CuResult::kSuccess;
  }
  const auto in_order = session.platform->streams().in_order(stream);
  const CuResult result = real().cuStreamWaitEvent(stream, event_, 0);
  if (result == CuResult::kSuccess) {
    session.platform->streams().waits_for(event_, stream);
  }
  return result;
}

CuResult GraphLaunchOrder::record(const Session& session, CuStream stream) {
  if (event_ == nullptr) {
    made_before_ = graph_handles_forgotten();
    if (const CuResult made = real().cuEventCreate(&event_, kCuEventDisableTiming);
        made != CuResult::kSuccess) {
      event_ = nullptr;
      return made;
    }
  }
  const auto in_order = session.platform->streams().in_order(stream);
  session.platform->streams().recorded(event_, stream);
  const CuResult result = real().cuEventRecord(event_, stream);
  recorded_ = result == CuResult::kSuccess;
  if (!recorded_) {
    session.platform->streams().not_recorded(event_);
  }
  return result;
}

CuResult GraphLaunchOrder::whole(const Session& session, CuStream stream, bool may_step,
                                 const std::function<CuResult()>& call) {
  const MutexLock lock(mutex_);
  if (const CuResult waits = wait_for_last(session, stream); waits != CuResult::kSuccess) {
    return waits;
  }
  const CuResult result = call();
  if (result != CuResult::kSuccess) {
    return result;
  }
  stepped_ = false;
  if (may_step || recorded_) {
    (void)record(session, stream);
  }
  launched_ = !recorded_;
  return result;
}

std::optional<CuResult> GraphLaunchOrder::in_steps(const Session& session, CuStream stream,
                                                   const GraphSteps& steps) {
  const MutexLock lock(mutex_);
  const bool ready =
      !launched_ && std::all_of(steps.begin(), steps.end(), [&](const AttributedStep& it) {
        return it.step->prepare(session);
      });
  if (!ready) {
    return std::nullopt;
  }
  CuResult result = wait_for_last(session, stream);
  for (auto it = steps.begin(); result == CuResult::kSuccess && it != steps.end(); ++it) {
    result = it->step->issue(session, stream, it->attributes);
  }
  stepped_ = true;
  const CuResult recorded = record(session, stream);
  launched_ = !recorded_;
  return result == CuResult::kSuccess ? recorded : result;
}

bool GraphLaunchOrder::steps_under_way() {
  const MutexLock lock(mutex_);
  return stepped_ && recorded_ && made_before_ == graph_handles_forgotten() &&
         (captures_under_way() || real().cuEventQuery(event_) == CuResult::kNotReady);
}

}  // namespace spillway::cuda
