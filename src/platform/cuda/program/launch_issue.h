// Launches of the program, from before each call to after it. Layer: platform, cuda. docs/cuda.md.
// All functions are thread-safe, except where one says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "engine/engine.h"
#include "platform/cuda/cuda_launch.h"
#include "platform/cuda/platform_part.h"
#include "platform/cuda/recompute/recomputing.h"

namespace spillway::cuda {

class LaunchIssue : public PlatformPart {
 public:
  LaunchIssue(PlatformState& state, PlatformParts& parts) : PlatformPart(state, parts) {}

  // The addresses of these allocations have escaped: launches that reach escaped addresses may
  // write them without naming them, until they die.
  void expose(std::span<const std::uint64_t> addresses);
  // True if any address has ever escaped. Until then a launch without operands uses nothing of the
  // space and need not be tracked. Costs next to nothing.
  [[nodiscard]] bool has_exposed() const { return has_exposed_.load(std::memory_order_relaxed); }

  // Called by the program's thread, in its context, right before it makes the launch; puts what it
  // needs on the stream, and waits where docs/cuda.md says so. 0: nothing of ours is used, or the
  // run is ending.
  std::uint64_t before_launch(const CudaLaunch& launch);
  // Between before_launch and after_launch: this stored launch cannot be repeated after all.
  void not_kept(std::uint64_t launch);
  // Between before_launch and after_launch: true if the launch stands behind a stream wait, so that
  // its operands may have no memory yet.
  [[nodiscard]] bool is_held(std::uint64_t launch) const;
  // After the call, by a thread that is about to wait for its stream: from now on other threads may
  // issue to streams that the device orders with this one.
  void let_others_issue(std::uint64_t launch);
  // Right after the launch, with what before_launch gave. `made`: the driver has taken it.
  void after_launch(std::uint64_t launch, bool made);

  // --- For other parts, without the lock

  // As before_launch, of a launch of ours: a step for `step_of`, which stands before a launch of
  // the program (recomputing.h).
  std::uint64_t issue_step(const CudaLaunch& launch, AllocationId step_of);
  // The number of a launch on its stream.
  [[nodiscard]] std::uint64_t number_of(std::uint64_t launch) const;

 private:
  // A launch between the look at what it uses and its issue.
  struct Issuing {
    const CudaLaunch& launch;
    AllocationId step_of = kNoAllocation;  // of one of ours
    StreamId stream = 0;
    std::unique_lock<Mutex> in_order = {};  // while nobody else may issue to the stream
    std::vector<Access> accesses = {};
    std::vector<Access> with_reached = {};  // with what it changes and does not name; or empty
  };

  std::uint64_t issue(const CudaLaunch& launch, AllocationId step_of);
  [[nodiscard]] std::optional<std::uint64_t> make_ready(Issuing& issuing)
      SPILLWAY_REQUIRES(platform_lock);
  void look_up(Issuing& issuing) SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] bool uses_nothing(const Issuing& issuing) const;
  void bypass(const Issuing& issuing) SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] std::optional<Recomputing::Step> step_before(Issuing& issuing) const
      SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] bool wants_marker(const Issuing& issuing) const SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] std::uint32_t tell_engine(Issuing& issuing) SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] LaunchId issue_to_engine(const Launch& issued, std::string_view name)
      SPILLWAY_REQUIRES(platform_lock);
  void hold_for_memory(const CudaLaunch& launch, std::uint32_t tag)
      SPILLWAY_REQUIRES(platform_lock);
  void use_in_bypass(const Launch& launch) SPILLWAY_REQUIRES(platform_lock);
  void expose(AllocationId id) SPILLWAY_REQUIRES(platform_lock);

  std::atomic<bool> has_exposed_{false};
};

}  // namespace spillway::cuda
