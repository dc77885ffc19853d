// Algorithm 1 with a lazily sorted list of candidates, and eager prefetching. See g10_planner.h.
#include "policy/g10_planner.h"

#include <algorithm>
#include <optional>
#include <queue>

#include "analysis/memory_curve.h"
#include "policy/channels.h"
#include "policy/plan_estimate.h"

namespace spillway {
namespace {

// A plan that fits only if the iteration takes this much longer than its kernels is not looked for:
// beyond it the link is so far from enough that order hardly matters.
constexpr double kDilationMax = 64;
// How close the search for the shortest feasible iteration comes.
constexpr double kDilationStep = 1.05;
// How often the planner looks at its plan and plans again.
constexpr int kRounds = 2;
// Plans count on this share of what links and storage can carry: kernel times are estimates, and
// transfers get into each other's way.
constexpr double kPlannedShare = 0.9;

struct Window {
  Tier to;
  std::size_t evicted;  // last slot in which bytes leave
  std::size_t fetch;    // first slot in which bytes come back
};

class Scheduler {
 public:
  Scheduler(const Trace& trace, const Vitality& vitality, const Machine& machine,
            const G10Options& options, const std::vector<TimeNs>& slot_ns)
      : trace_(trace),
        vitality_(vitality),
        machine_(machine),
        options_(options),
        slot_ns_(slot_ns),
        channels_(machine, slot_ns),
        idle_channels_(channels_),
        taken_(vitality.periods.size(), false),
        slots_(slot_ns.size()),
        host_bytes_(slots_, 0) {
    const MemoryCurve curve = memory_curve(trace, vitality, machine.device.frame_bytes);
    for (const KernelMemory& kernel : curve.kernels) {
      pressure_.push_back(kernel.live_bytes);
    }
  }

  EvictionSchedule run() {
    choose_while_over_capacity();
    for (const Timing timing : {Timing::kAlone, Timing::kStalling}) {
      if (options_.stalling) {
        timing_ = timing;
        choose_while_over_capacity();
      }
    }
    schedule_.fits = !over_capacity();
    schedule_.pressure_bytes = pressure_;
    return std::move(schedule_);
  }

 private:
  // What a candidate's copies may count on. The first round takes those that hide behind kernels.
  // Where they do not suffice, the iteration will take longer than its kernels, and other copies
  // will find time too: first those that fit into their periods if they had the links to
  // themselves, then any.
  enum class Timing { kHidden, kAlone, kStalling };

  // Benefits only shrink as evictions are chosen: pressure falls and channels fill. So a candidate
  // whose benefit, computed anew, is still at least the next one's is the best of all, and the list
  // need not be sorted again.
  struct Candidate {
    double value;
    std::size_t period;
    bool operator<(const Candidate& other) const {
      return value != other.value ? value < other.value : period > other.period;
    }
  };

  void choose_while_over_capacity() {
    std::priority_queue<Candidate> candidates;
    for (std::size_t i = 0; i < vitality_.periods.size(); ++i) {
      if (!taken_[i]) {
        if (const double value = best_value(i); value > 0) {
          candidates.push({value, i});
        }
      }
    }
    while (!candidates.empty() && over_capacity()) {
      const Candidate top = candidates.top();
      candidates.pop();
      const std::optional<Window> window = choose(top.period);
      if (!window) {
        continue;
      }
      const double value = value_of(top.period, *window);
      if (value <= 0) {
        continue;
      }
      if (!candidates.empty() && value < candidates.top().value) {
        candidates.push({value, top.period});
        continue;
      }
      accept(top.period, *window);
      taken_[top.period] = true;
      schedule_.periods.push_back(
          {top.period, window->to, window->evicted, window->fetch, window->fetch});
    }
  }

  [[nodiscard]] std::size_t ring(std::size_t slot) const { return slot % slots_; }
  [[nodiscard]] std::size_t first_slot(const InactivePeriod& period) const {
    return period.after + std::size_t{1};
  }
  [[nodiscard]] std::size_t end_slot(const InactivePeriod& period) const {
    return period.wraps ? period.until + slots_ : period.until;
  }
  [[nodiscard]] Bytes bytes_of(const InactivePeriod& period) const {
    return round_up(trace_.tensors[period.tensor].bytes, machine_.device.frame_bytes);
  }
  [[nodiscard]] bool over_capacity() const {
    return std::any_of(pressure_.begin(), pressure_.end(),
                       [&](Bytes bytes) { return bytes > machine_.device.capacity_bytes; });
  }

  [[nodiscard]] std::optional<Window> window_in(const InactivePeriod& period, Tier tier) const {
    const Bytes bytes = bytes_of(period);
    const std::size_t end = end_slot(period);
    if (timing_ == Timing::kStalling) {
      // Gone before the next kernel, back before the last one: as good as it can be.
      return Window{tier, period.after, end};
    }
    const Channels& channels = timing_ == Timing::kHidden ? channels_ : idle_channels_;
    const auto evicted = channels.earliest_end(tier, bytes, first_slot(period), end);
    if (!evicted) {
      return std::nullopt;
    }
    const auto fetch = channels.latest_start(tier, bytes, end, *evicted + 1);
    if (!fetch) {
      return std::nullopt;
    }
    return Window{tier, *evicted, *fetch};
  }

  [[nodiscard]] bool host_has_room(const InactivePeriod& period) const {
    const Bytes bytes = bytes_of(period);
    for (std::size_t slot = first_slot(period); slot < end_slot(period); ++slot) {
      if (host_bytes_[ring(slot)] + bytes > machine_.host.capacity_bytes) {
        return false;
      }
    }
    return true;
  }

  // Storage first, for its size; host memory when storage is too busy for the tensor to go at once
  // and come back in time (algorithm 1, lines 7 to 17).
  [[nodiscard]] std::optional<Window> choose(std::size_t index) const {
    const InactivePeriod& period = vitality_.periods[index];
    if (timing_ != Timing::kHidden && options_.uses_host && host_has_room(period)) {
      return window_in(period, Tier::kHost);  // what makes kernels wait goes the fastest way
    }
    std::optional<Window> storage;
    if (options_.uses_storage) {
      storage = window_in(period, Tier::kStorage);
    }
    if (storage && !storage_is_full(period, *storage)) {
      return storage;
    }
    if (options_.uses_host && host_has_room(period)) {
      if (const std::optional<Window> host = window_in(period, Tier::kHost)) {
        return host;
      }
    }
    return storage;
  }

  // Whether other evictions would delay this one: it ends later than it would on idle storage.
  [[nodiscard]] bool storage_is_full(const InactivePeriod& period, const Window& window) const {
    const double alone_ns =
        static_cast<double>(bytes_of(period)) * 1e9 / machine_.storage.write_bytes_per_s;
    double elapsed_ns = 0;
    for (std::size_t slot = first_slot(period); slot < window.evicted; ++slot) {
      elapsed_ns += static_cast<double>(slot_ns_[ring(slot)]);
    }
    return elapsed_ns >= alone_ns;
  }

  // Pressure above the capacity that the eviction takes away, times how long, over what it costs:
  // the bytes that move (figure 7).
  [[nodiscard]] double value_of(std::size_t index, const Window& window) const {
    const auto bytes = static_cast<double>(bytes_of(vitality_.periods[index]));
    const auto capacity = static_cast<double>(machine_.device.capacity_bytes);
    double area = 0;
    for (std::size_t slot = window.evicted + 1; slot < window.fetch; ++slot) {
      const double excess = static_cast<double>(pressure_[ring(slot)]) - capacity;
      if (excess > 0) {
        // A kernel of no length counts a little, so that its excess is taken away too.
        area += std::min(bytes, excess) * static_cast<double>(slot_ns_[ring(slot)] + 1);
      }
    }
    return area / bytes;
  }

  [[nodiscard]] double best_value(std::size_t index) const {
    double best = 0;
    for (const Tier tier : {Tier::kStorage, Tier::kHost}) {
      if (tier == Tier::kHost ? !options_.uses_host : !options_.uses_storage) {
        continue;
      }
      if (const auto window = window_in(vitality_.periods[index], tier)) {
        best = std::max(best, value_of(index, *window));
      }
    }
    return best;
  }

  void accept(std::size_t index, const Window& window) {
    const InactivePeriod& period = vitality_.periods[index];
    const Bytes bytes = bytes_of(period);
    channels_.take_out(window.to, bytes, first_slot(period));
    channels_.take_in(window.to, bytes, end_slot(period));
    for (std::size_t slot = window.evicted + 1; slot < window.fetch; ++slot) {
      pressure_[ring(slot)] -= bytes;
    }
    if (window.to == Tier::kHost) {
      for (std::size_t slot = first_slot(period); slot < end_slot(period); ++slot) {
        host_bytes_[ring(slot)] += bytes;
      }
    }
  }

  const Trace& trace_;
  const Vitality& vitality_;
  const Machine& machine_;
  const G10Options& options_;
  const std::vector<TimeNs>& slot_ns_;
  Channels channels_;
  Channels idle_channels_;
  std::vector<bool> taken_;
  Timing timing_ = Timing::kHidden;
  EvictionSchedule schedule_;
  std::size_t slots_;
  std::vector<Bytes> pressure_;
  std::vector<Bytes> host_bytes_;
};

// The plan of a schedule, as steps before kernels.
Plan make_plan(const Trace& trace, const Vitality& vitality, const EvictionSchedule& schedule) {
  Plan plan;
  plan.fits = schedule.fits;
  const std::size_t slots = trace.kernels.size();
  plan.before.resize(slots);
  for (const PlannedPeriod& planned : schedule.periods) {
    const InactivePeriod& period = vitality.periods[planned.period];
    plan.before[(period.after + std::size_t{1}) % slots].push_back(
        {PlanStep::kPreEvict, period.tensor, planned.to});
    (planned.to == Tier::kHost ? plan.to_host_bytes : plan.to_storage_bytes) +=
        trace.tensors[period.tensor].bytes;
  }
  struct Birth {
    TensorId tensor;
    KernelIndex first_use;
  };
  std::vector<Birth> births;
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    const std::optional<TensorLife>& life = vitality.lives[id];
    if (life && !trace.tensors[id].persistent) {
      plan.before[(life->last_use + std::size_t{1}) % slots].push_back({PlanStep::kFree, id});
      births.push_back({id, life->first_use});
    }
  }
  for (const Birth& birth : births) {
    plan.before[birth.first_use].push_back({PlanStep::kAlloc, birth.tensor});
  }
  // In the order of their latest safe times, which is the order in which they are needed.
  for (const PlannedPeriod& planned : schedule.periods) {
    plan.before[planned.fetch % slots].push_back(
        {PlanStep::kPrefetch, vitality.periods[planned.period].tensor});
  }
  return plan;
}

std::vector<TimeNs> scaled(const std::vector<TimeNs>& slot_ns, double factor) {
  std::vector<TimeNs> result;
  result.reserve(slot_ns.size());
  for (const TimeNs ns : slot_ns) {
    result.push_back(static_cast<TimeNs>(static_cast<double>(ns) * factor));
  }
  return result;
}

Machine with_share(const Machine& machine, double share) {
  Machine result = machine;
  for (double* bytes_per_s :
       {&result.link.to_device_bytes_per_s, &result.link.from_device_bytes_per_s,
        &result.storage.read_bytes_per_s, &result.storage.write_bytes_per_s}) {
    *bytes_per_s *= share;
  }
  return result;
}

// The schedule for the shortest iteration, all slots longer by one factor, in which the copies
// hide.
EvictionSchedule schedule_dilated(const Trace& trace, const Vitality& vitality,
                                  const Machine& machine, const G10Options& options,
                                  const std::vector<TimeNs>& slot_ns) {
  const auto trial = [&](double factor) {
    return schedule_evictions(trace, vitality, machine, options, scaled(slot_ns, factor));
  };
  double low = 1;
  double high = 2;
  EvictionSchedule best = trial(high);
  while (!best.fits && high < kDilationMax) {
    low = high;
    high *= 2;
    best = trial(high);
  }
  while (best.fits && high / low > kDilationStep) {
    const double middle = (low + high) / 2;
    EvictionSchedule schedule = trial(middle);
    if (schedule.fits) {
      high = middle;
      best = std::move(schedule);
    } else {
      low = middle;
    }
  }
  return best;
}

}  // namespace

EvictionSchedule schedule_evictions(const Trace& trace, const Vitality& vitality,
                                    const Machine& machine, const G10Options& options,
                                    const std::vector<TimeNs>& slot_ns) {
  return Scheduler(trace, vitality, machine, options, slot_ns).run();
}

void schedule_eager_prefetches(const Trace& trace, const Vitality& vitality, const Machine& machine,
                               EvictionSchedule& schedule) {
  const std::size_t slots = schedule.pressure_bytes.size();
  std::sort(schedule.periods.begin(), schedule.periods.end(),
            [](const PlannedPeriod& a, const PlannedPeriod& b) {
              return a.latest_fetch != b.latest_fetch ? a.latest_fetch < b.latest_fetch
                                                      : a.period < b.period;
            });
  for (PlannedPeriod& planned : schedule.periods) {
    const Bytes bytes = round_up(trace.tensors[vitality.periods[planned.period].tensor].bytes,
                                 machine.device.frame_bytes);
    while (planned.fetch > planned.evicted + 1) {
      Bytes& pressure = schedule.pressure_bytes[(planned.fetch - 1) % slots];
      if (pressure + bytes > machine.device.capacity_bytes) {
        break;
      }
      pressure += bytes;
      --planned.fetch;
    }
  }
}

Plan plan_g10(const Trace& trace, const Vitality& vitality, const Machine& machine,
              const G10Options& options) {
  const Machine planned = with_share(machine, kPlannedShare);
  std::vector<TimeNs> slot_ns;
  slot_ns.reserve(trace.kernels.size());
  for (const Kernel& kernel : trace.kernels) {
    slot_ns.push_back(kernel.duration_ns);
  }
  Plan best;
  PlanEstimate best_estimate;
  const auto consider = [&](EvictionSchedule schedule) {
    schedule_eager_prefetches(trace, vitality, machine, schedule);
    Plan plan = make_plan(trace, vitality, schedule);
    PlanEstimate estimate = estimate_plan(plan, trace, machine);
    if (best.before.empty() || estimate.iteration_ns < best_estimate.iteration_ns) {
      best = std::move(plan);
      best_estimate = estimate;
    }
    return estimate;
  };

  EvictionSchedule hidden = schedule_evictions(trace, vitality, planned, options, slot_ns);
  const bool fits = hidden.fits;
  consider(std::move(hidden));
  // Where the copies cannot all hide behind the kernels, some kernels will wait. Which ones depends
  // on the plan, and the best plan on which ones: plan, look where the waiting is, plan again.
  for (int round = 0; !fits && round < kRounds; ++round) {
    G10Options stalling = options;
    stalling.stalling = true;
    consider(schedule_evictions(trace, vitality, planned, stalling, slot_ns));
    consider(schedule_dilated(trace, vitality, planned, options, slot_ns));
    slot_ns = best_estimate.slot_ns;
  }
  best.estimated_ns = best_estimate.iteration_ns;
  return best;
}

}  // namespace spillway
