// One pass over the program with a clock for each direction of each tier. See plan_estimate.h.
#include "policy/planning/plan_estimate.h"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <queue>

namespace spillway {
namespace {

class Estimator {
 public:
  Estimator(const Plan& plan, const Trace& trace, const Machine& machine)
      : plan_(plan), trace_(trace), machine_(machine), tensors_(trace.tensors.size()) {}

  PlanEstimate run() {
    PlanEstimate estimate;
    for (int iteration = 0; iteration < 2; ++iteration) {
      const double start_ns = now_ns_;
      estimate.slot_ns.clear();
      for (KernelIndex index = 0; index < trace_.kernels.size(); ++index) {
        const double before_ns = now_ns_;
        for (const PlanAction& action : plan_.before[index]) {
          carry_out(action);
        }
        launch(trace_.kernels[index]);
        estimate.slot_ns.push_back(static_cast<TimeNs>(now_ns_ - before_ns));
      }
      estimate.iteration_ns = static_cast<TimeNs>(now_ns_ - start_ns);
    }
    return estimate;
  }

 private:
  enum class Place { kNowhere, kDevice, kLeaving, kBelow, kWanted };
  struct State {
    Place place = Place::kNowhere;
    Tier tier = Tier::kHost;  // below
    double there_ns = 0;      // on the device from then on
    double gone_ns = 0;       // its copy below is whole from then on
  };
  struct Leaving {
    double at_ns;
    TensorId tensor;
    bool operator>(const Leaving& other) const { return at_ns > other.at_ns; }
  };

  [[nodiscard]] double bytes_of(TensorId id) const {
    return static_cast<double>(trace_.tensors[id].bytes);
  }
  // The clock of a direction of a tier, moved on by a copy that may start at start_ns.
  double copy(std::size_t direction, Tier tier, double bytes, double start_ns) {
    double bytes_per_s = direction == 0 ? machine_.link.from_device_bytes_per_s
                                        : machine_.link.to_device_bytes_per_s;
    if (tier == Tier::kStorage) {
      bytes_per_s = std::min(bytes_per_s, direction == 0 ? machine_.storage.write_bytes_per_s
                                                         : machine_.storage.read_bytes_per_s);
    }
    double& free_ns = free_ns_[direction][index_of(tier)];
    free_ns = std::max(free_ns, start_ns) + bytes / bytes_per_s * 1e9;
    return free_ns;
  }

  void carry_out(const PlanAction& action) {
    State& state = tensors_[action.tensor];
    switch (action.step) {
      case PlanStep::kPreEvict:
        if (state.place == Place::kDevice) {
          state.tier = action.to;
          state.gone_ns =
              copy(0, action.to, bytes_of(action.tensor), std::max(now_ns_, state.there_ns));
          state.place = Place::kLeaving;
          leaving_.push({state.gone_ns, action.tensor});
        }
        break;
      case PlanStep::kFree:
        if (state.place == Place::kDevice || state.place == Place::kLeaving) {
          used_bytes_ -= bytes_of(action.tensor);
        }
        state.place = Place::kNowhere;
        break;
      case PlanStep::kPrefetch:
        if (state.place == Place::kLeaving || state.place == Place::kBelow) {
          wanted_.push_back(action.tensor);
          settle(now_ns_);
        }
        break;
      case PlanStep::kAlloc:
        break;
    }
  }

  // Lets the copies that end by until_ns give back their memory, and the fetches that wait for it
  // begin, in order.
  void settle(double until_ns) {
    fetch_wanted(now_ns_);
    while (!leaving_.empty() && leaving_.top().at_ns <= until_ns) {
      leave_next();
    }
  }

  double leave_next() {
    const Leaving next = leaving_.top();
    leaving_.pop();
    State& state = tensors_[next.tensor];
    if (state.place == Place::kLeaving && state.gone_ns == next.at_ns) {
      used_bytes_ -= bytes_of(next.tensor);
      state.place = Place::kBelow;
    }
    fetch_wanted(next.at_ns);
    return next.at_ns;
  }

  void fetch_wanted(double at_ns) {
    while (!wanted_.empty()) {
      const TensorId id = wanted_.front();
      if (tensors_[id].place == Place::kBelow) {
        if (used_bytes_ + bytes_of(id) > capacity_bytes()) {
          return;
        }
        fetch(id, at_ns);
      } else if (tensors_[id].place == Place::kLeaving) {
        return;
      }
      wanted_.pop_front();
    }
  }

  void fetch(TensorId id, double at_ns) {
    State& state = tensors_[id];
    used_bytes_ += bytes_of(id);
    state.there_ns = copy(1, state.tier, bytes_of(id), std::max(at_ns, state.gone_ns));
    state.place = Place::kDevice;
  }

  [[nodiscard]] double capacity_bytes() const {
    return static_cast<double>(machine_.device.capacity_bytes);
  }

  // Waits until the tensor fits; a plan that never makes room for it waits as long as copying it
  // out would take.
  void make_room(TensorId id) {
    while (used_bytes_ + bytes_of(id) > capacity_bytes() && !leaving_.empty()) {
      now_ns_ = std::max(now_ns_, leave_next());
    }
    const double excess_bytes = used_bytes_ + bytes_of(id) - capacity_bytes();
    if (excess_bytes > 0) {
      const Tier tier = machine_.host.capacity_bytes > 0 ? Tier::kHost : Tier::kStorage;
      now_ns_ = std::max(now_ns_, copy(0, tier, excess_bytes, now_ns_));
      copy(1, tier, excess_bytes, now_ns_);
    }
  }

  void need(TensorId id) {
    State& state = tensors_[id];
    if (state.place == Place::kLeaving) {
      state.place = Place::kDevice;  // it stays
    }
    if (state.place == Place::kNowhere) {
      make_room(id);
      used_bytes_ += bytes_of(id);
      state.place = Place::kDevice;
      state.there_ns = now_ns_;
    } else if (state.place == Place::kBelow) {
      make_room(id);
      if (state.place == Place::kBelow) {  // making room may have let its fetch begin
        fetch(id, now_ns_);
      }
    }
    ready_ns_ = std::max(ready_ns_, state.there_ns);
  }

  void launch(const Kernel& kernel) {
    settle(now_ns_);
    ready_ns_ = now_ns_;
    for (const TensorId id : kernel.reads) {
      need(id);
    }
    for (const TensorId id : kernel.writes) {
      need(id);
    }
    now_ns_ = std::max(now_ns_, ready_ns_) + static_cast<double>(kernel.duration_ns);
    settle(now_ns_);
  }

  const Plan& plan_;
  const Trace& trace_;
  const Machine& machine_;
  std::vector<State> tensors_;
  double now_ns_ = 0;
  double ready_ns_ = 0;
  double used_bytes_ = 0;
  std::array<std::array<double, kTierCount>, 2> free_ns_{};  // [out, in][tier]
  std::priority_queue<Leaving, std::vector<Leaving>, std::greater<>> leaving_;
  std::deque<TensorId> wanted_;
};

}  // namespace

PlanEstimate estimate_plan(const Plan& plan, const Trace& trace, const Machine& machine) {
  return Estimator(plan, trace, machine).run();
}

}  // namespace spillway
