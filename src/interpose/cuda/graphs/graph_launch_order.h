// Launches of one executable graph run one after the other, on whatever streams: the driver sees to
// that as long as they are whole, and this where some are made in steps. Layer: interpose, cuda.
// Thread-safe.
#pragma once

#include <functional>
#include <optional>

#include "base/mutex.h"
#include "interpose/cuda/graphs/graph_steps.h"

namespace spillway::cuda {

class GraphLaunchOrder {
 public:
  GraphLaunchOrder() = default;
  GraphLaunchOrder(const GraphLaunchOrder&) = delete;
  GraphLaunchOrder& operator=(const GraphLaunchOrder&) = delete;
  ~GraphLaunchOrder();
  // `call` launches it. `may_step`: later launches of it may be made in steps.
  CuResult whole(const Session& session, CuStream stream, bool may_step,
                 const std::function<CuResult()>& call);
  // All steps are issued before another launch of the graph. nullopt: nothing has been issued, and
  // it has to be whole. Where the driver refuses a step those before it have been issued.
  std::optional<CuResult> in_steps(const Session& session, CuStream stream,
                                   const GraphSteps& steps);
  // Whether the last launch was made in steps that have not ended; beside a capture, in which the
  // driver may not be asked, whether it was made so.
  [[nodiscard]] bool steps_under_way();

 private:
  CuResult wait_for_last(const Session& session, CuStream stream) const SPILLWAY_REQUIRES(mutex_);
  CuResult record(const Session& session, CuStream stream) SPILLWAY_REQUIRES(mutex_);

  Mutex mutex_;  // held while a launch is issued
  // There was a launch, and the event does not stand behind the last one.
  bool launched_ SPILLWAY_GUARDED_BY(mutex_) = false;
  bool stepped_ SPILLWAY_GUARDED_BY(mutex_) = false;   // the last launch was made in steps
  bool recorded_ SPILLWAY_GUARDED_BY(mutex_) = false;  // the event stands behind the last launch
  CuEvent event_ SPILLWAY_GUARDED_BY(mutex_) = nullptr;
  std::uint64_t made_before_ SPILLWAY_GUARDED_BY(mutex_) = 0;
};

}  // namespace spillway::cuda
