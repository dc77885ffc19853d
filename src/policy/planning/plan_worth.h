// Whether a plan stops its program less often than paging did. Layer: policy.
// A plan is made for the iteration that was recorded. One whose iterations differ, as a server's
// requests do, may be moved to and fro for nothing, and stop more often than without a plan. So
// stops at what had left are counted: for each launch, before there was a plan and under it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace spillway {

// Not safe for concurrent use.
class PlanWorth {
 public:
  // A plan for an iteration of so many launches is followed from now on.
  void planned(std::uint64_t launches) {
    iteration_launches_ = std::max<std::uint64_t>(launches, 1);
    settled_ = false;
    plan_ = {};
  }
  // From now on none is.
  void dropped() {
    iteration_launches_ = 0;
    paging_ = {};
  }

  // A launch needs what has left the device, and stops.
  void stopped() { ++now().stops; }
  // A launch has begun. True if the plan does worse than paging did: asked about every two
  // iterations, the first one left out, as nothing is where the plan expects it yet.
  bool launched() {
    Rate& rate = now();
    if (iteration_launches_ == 0) {
      rate.launches += rate.stops > 0 ? 1 : 0;  // before the first stop everything fitted
      return false;
    }
    if (++rate.launches < (settled_ ? 2 : 1) * iteration_launches_) {
      return false;
    }
    const Rate plan = std::exchange(plan_, {});
    return std::exchange(settled_, true) &&
           plan.stops * paging_.launches > paging_.stops * plan.launches;
  }

 private:
  struct Rate {
    std::uint64_t launches = 0;
    std::uint64_t stops = 0;
  };
  Rate& now() { return iteration_launches_ > 0 ? plan_ : paging_; }

  std::uint64_t iteration_launches_ = 0;  // 0: there is no plan
  bool settled_ = false;
  Rate paging_;
  Rate plan_;
};

}  // namespace spillway
