// See graph_launch_order.h.
#include "front/cuda/graph_launch_order.h"

#include <algorithm>

#include "front/cuda/captures.h"
#include "front/cuda/hook_table.h"

namespace spillway::cuda {

GraphLaunchOrder::~GraphLaunchOrder() {
  if (stepped_ != nullptr && made_before_ == graph_handles_forgotten()) {
    (void)real().cuEventDestroy_v2(stepped_);
  }
}

// Threads' own streams have one handle.
bool GraphLaunchOrder::on_another(CuStream stream) const {
  return last_ != Last::kNone && (stream != stream_ || is_per_thread(stream));
}

CuResult GraphLaunchOrder::wait_for_steps(const Session& session, CuStream stream) const {
  const auto in_order = session.platform->in_order(stream);
  const CuResult result = real().cuStreamWaitEvent(stream, stepped_, 0);
  if (result == CuResult::kSuccess) {
    session.platform->waits_for(stepped_, stream);
  }
  return result;
}

CuResult GraphLaunchOrder::whole(const Session& session, CuStream stream,
                                 const std::function<CuResult()>& call) {
  const std::scoped_lock lock(mutex_);
  if (last_ == Last::kSteps && on_another(stream)) {
    if (const CuResult waits = wait_for_steps(session, stream); waits != CuResult::kSuccess) {
      return waits;
    }
  }
  const CuResult result = call();
  if (result == CuResult::kSuccess) {
    last_ = Last::kWhole;
    stream_ = stream;
  }
  return result;
}

std::optional<CuResult> GraphLaunchOrder::in_steps(const Session& session, CuStream stream,
                                                   const GraphSteps& steps) {
  const std::scoped_lock lock(mutex_);
  const bool behind_whole = last_ == Last::kWhole && on_another(stream);
  if (behind_whole && captures_under_way()) {
    return std::nullopt;  // the wait below would end the capture
  }
  const bool ready = std::all_of(steps.begin(), steps.end(), [&](const AttributedStep& it) {
    return it.step->prepare(session);
  });
  if (!ready) {
    return std::nullopt;
  }
  if (stepped_ == nullptr) {
    made_before_ = graph_handles_forgotten();
    if (real().cuEventCreate(&stepped_, kCuEventDisableTiming) != CuResult::kSuccess) {
      return std::nullopt;
    }
  }
  if (behind_whole) {
    // Nothing tells when that one has ended. It is as rare as programs that have one graph on two
    // streams.
    session.platform->before_wait(std::nullopt);
    (void)real().cuCtxSynchronize();
    session.platform->after_wait(std::nullopt);
  } else if (on_another(stream)) {
    if (const CuResult waits = wait_for_steps(session, stream); waits != CuResult::kSuccess) {
      return waits;
    }
  }
  for (const AttributedStep& it : steps) {
    if (const CuResult result = it.step->issue(session, stream, it.attributes);
        result != CuResult::kSuccess) {
      return result;
    }
  }
  last_ = Last::kSteps;
  stream_ = stream;
  const auto in_order = session.platform->in_order(stream);
  session.platform->recorded(stepped_, stream);
  const CuResult result = real().cuEventRecord(stepped_, stream);
  if (result != CuResult::kSuccess) {
    session.platform->not_recorded(stepped_);
  }
  return result;
}

}  // namespace spillway::cuda
