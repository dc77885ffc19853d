// Plans for the iteration that a GPU's program runs, in a thread of their own. Layer: runtime.
#pragma once

#include <optional>
#include <thread>

#include "base/mutex.h"
#include "platform/cuda/cuda_platform.h"
#include "policy/planning/planner.h"
#include "policy/registry.h"

namespace spillway {

// What a planner is told of this device: the budgets, and rates as the run has met them so far;
// what it is held back to may be less.
[[nodiscard]] Machine machine_of(const cuda::CudaPlatform& platform, const LinkSpeed& link);

class DevicePlanner final : public Planner {
 public:
  // By the planner of `info`, which must have one.
  DevicePlanner(const PolicyInfo& info, const PolicyOptions& options, const LinkSpeed& link)
      : info_(info), options_(options), link_(link) {}
  ~DevicePlanner() override { finish(); }

  // Before the program's first launch. The platform must live until `finish`.
  void serve(const cuda::CudaPlatform& platform) { platform_ = &platform; }
  // Waits for the plan that is being made. The last call.
  void finish();

  // With the platform's lock held, which the thread takes for a moment.
  void ask(Trace iteration) override;
  [[nodiscard]] std::optional<Plan> take() override;

 private:
  void make_plan(const Trace& iteration);

  const PolicyInfo& info_;
  const PolicyOptions options_;
  const LinkSpeed link_;
  const cuda::CudaPlatform* platform_ = nullptr;
  std::thread thread_;
  Mutex mutex_;
  std::optional<Plan> plan_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
