// Launches of one executable graph run one after the other, on whatever streams: the driver sees to
// that as long as they are whole, and this where some are made in steps. Layer: front, cuda.
// Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "front/cuda/graph_steps.h"

namespace spillway::cuda {

class GraphLaunchOrder {
 public:
  GraphLaunchOrder() = default;
  GraphLaunchOrder(const GraphLaunchOrder&) = delete;
  GraphLaunchOrder& operator=(const GraphLaunchOrder&) = delete;
  ~GraphLaunchOrder();
  // `call` launches it.
  CuResult whole(const Session& session, CuStream stream, const std::function<CuResult()>& call);
  // All steps are issued before another launch of the graph. nullopt: nothing has been issued, and
  // it has to be whole.
  std::optional<CuResult> in_steps(const Session& session, CuStream stream,
                                   const GraphSteps& steps);

 private:
  enum class Last { kNone, kWhole, kSteps };
  [[nodiscard]] bool on_another(CuStream stream) const;
  CuResult wait_for_steps(const Session& session, CuStream stream) const;

  std::mutex mutex_;  // while one is issued
  Last last_ = Last::kNone;
  CuStream stream_ = nullptr;  // the last one's
  CuEvent stepped_ = nullptr;  // behind the last that was made in steps
  std::uint64_t made_before_ = 0;
};

}  // namespace spillway::cuda
