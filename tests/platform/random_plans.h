// Plans that are made while a random program runs, as a runtime makes them: for an iteration that
// it has recorded, which may be long past, or by dice.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "machine/machine.h"
#include "policy/prediction/recorded_iteration.h"
#include "policy/profiled.h"
#include "policy/registry.h"

namespace spillway::sim {

class RandomPlans {
 public:
  RandomPlans(Profiled& policy, const Machine& machine, std::uint64_t seed)
      : policy_(&policy), machine_(machine), rng_(seed) {}

  void launched(const Launch& launch, TimeNs at_ns, const Space& space) {
    recorder_.launch(launch.execution, "kernel", at_ns, 0, true);
    for (const Access& access : launch.accesses) {
      recorder_.access(access.allocation, space.allocation(access.allocation).bytes,
                       writes(access.mode));
    }
    if (++launches_ % 16 == 0) {
      maybe_follow(at_ns);
    }
  }
  void died(AllocationId id) { recorder_.died(id); }
  [[nodiscard]] std::uint64_t followed() const { return followed_; }

 private:
  void maybe_follow(TimeNs at_ns) {
    if (rng_.chance(0.4)) {
      return;  // the iteration goes on
    }
    if (std::optional<RecordedIteration> made = recorder_.finish(at_ns, 0)) {
      recorder_ = {};
      if (iterations_.size() < 8) {
        iterations_.push_back(std::move(*made));
      } else {
        iterations_[rng_.below(iterations_.size())] = std::move(*made);
      }
    }
    const RecordedIteration& iteration =
        rng_.chance(0.5) ? iterations_.back() : iterations_[rng_.below(iterations_.size())];
    if (iteration.trace.kernels.empty()) {
      return;
    }
    policy_->follow(iteration, plan(iteration.trace),
                    rng_.chance(0.5) ? Tier::kHost : Tier::kStorage);
    ++followed_;
  }

  Plan plan(const Trace& trace) {
    if (rng_.chance(0.5)) {
      Result<Plan> made = find_policy("g10").value()->plan(with_room_ahead(trace), machine_, {});
      if (made) {
        return std::move(*made);
      }
    }
    Plan made;
    made.before.resize(trace.kernels.size());
    for (std::vector<PlanAction>& actions : made.before) {
      for (std::uint64_t i = rng_.below(4); i > 0 && !trace.tensors.empty(); --i) {
        actions.push_back({.step = static_cast<PlanStep>(rng_.below(4)),
                           .tensor = static_cast<TensorId>(rng_.below(trace.tensors.size())),
                           .to = static_cast<Tier>(rng_.below(kTierCount))});
      }
    }
    return made;
  }

  Profiled* policy_;
  Machine machine_;
  Rng rng_;
  IterationRecorder recorder_;
  std::vector<RecordedIteration> iterations_;
  std::uint64_t launches_ = 0;
  std::uint64_t followed_ = 0;
};

}  // namespace spillway::sim
