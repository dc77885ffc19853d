// Algorithm 1 with a lazily sorted list of candidates, and eager prefetching. See g10_planner.h.
#include "policy/planning/g10_planner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "analysis/memory_curve.h"
#include "policy/best_first.h"
#include "policy/planning/channels.h"
#include "policy/planning/plan_estimate.h"
#include "policy/planning/pressure_curve.h"

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
        channels_(machine, slot_ns),
        idle_channels_(channels_),
        taken_(vitality.periods.size(), false),
        bytes_(rounded_bytes()),
        twins_(number_twins()),
        slots_(slot_ns.size()),
        pressure_(live_bytes(), machine.device.capacity_bytes, machine.device.frame_bytes,
                  weights(slot_ns)),
        host_(std::vector<Bytes>(slots_, 0), machine.host.capacity_bytes,
              machine.device.frame_bytes, std::vector<std::uint64_t>(slots_, 0)) {
    start_ns_.push_back(0);
    for (std::size_t slot = 0; slot < 2 * slots_; ++slot) {
      start_ns_.push_back(start_ns_.back() + slot_ns[slot % slots_]);
    }
  }

  // Algorithm 1: what hides behind the kernels.
  EvictionSchedule hidden() {
    choose_while_over_capacity(Timing::kHidden);
    return schedule();
  }
  // Goes on from there with copies that kernels will wait for.
  EvictionSchedule stalling() {
    choose_while_over_capacity(Timing::kAlone);
    choose_while_over_capacity(Timing::kStalling);
    return schedule();
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
  void choose_while_over_capacity(Timing timing) {
    if (!pressure_.over_limit()) {
      return;
    }
    timing_ = timing;
    known_.assign(twins_.size(), {});
    BestFirst candidates = all_candidates();
    while (!candidates.empty() && pressure_.over_limit()) {
      const std::size_t top = candidates.best();
      const Choice& choice = choice_of(top);
      if (choice.value <= 0) {
        candidates.clear(top);
        continue;
      }
      candidates.set(top, choice.value);
      if (choice.value < candidates.best_value()) {
        continue;
      }
      candidates.clear(top);
      if (choice.window) {
        accept(top, *choice.window);
      }
    }
  }

  [[nodiscard]] BestFirst all_candidates() const {
    BestFirst candidates(vitality_.periods.size());
    std::vector<std::optional<double>> values(twins_.size());
    for (std::size_t i = 0; i < vitality_.periods.size(); ++i) {
      if (taken_[i]) {
        continue;
      }
      std::optional<double>& value = values[twins_[i]];
      if (!value) {
        value = best_value(i);
      }
      if (*value > 0) {
        candidates.set(i, *value);
      }
    }
    return candidates;
  }

  [[nodiscard]] EvictionSchedule schedule() const {
    EvictionSchedule made = schedule_;
    made.fits = !pressure_.over_limit();
    made.pressure_bytes = pressure_.bytes();
    return made;
  }

  struct Choice {
    std::optional<Window> window;
    double value = 0;  // 0 without one
  };
  // Periods of the same length and size at the same place have the same choice until another is
  // accepted: an optimizer's states, for one.
  const Choice& choice_of(std::size_t index) {
    Known& known = known_[twins_[index]];
    if (known.accepted != schedule_.periods.size()) {
      known.accepted = schedule_.periods.size();
      known.choice.window = choose(index);
      known.choice.value = known.choice.window ? value_of(index, *known.choice.window) : 0;
    }
    return known.choice;
  }

  [[nodiscard]] std::vector<std::uint32_t> number_twins() const {
    std::map<std::tuple<KernelIndex, KernelIndex, bool, Bytes>, std::uint32_t> numbers;
    std::vector<std::uint32_t> twins;
    twins.reserve(vitality_.periods.size());
    for (const InactivePeriod& period : vitality_.periods) {
      const auto next = static_cast<std::uint32_t>(numbers.size());
      twins.push_back(
          numbers.try_emplace({period.after, period.until, period.wraps, bytes_of(period)}, next)
              .first->second);
    }
    return twins;
  }

  [[nodiscard]] std::vector<Bytes> rounded_bytes() const {
    std::vector<Bytes> bytes;
    bytes.reserve(trace_.tensors.size());
    for (const Tensor& tensor : trace_.tensors) {
      bytes.push_back(round_up(tensor.bytes, machine_.device.frame_bytes));
    }
    return bytes;
  }
  [[nodiscard]] std::vector<Bytes> live_bytes() const {
    std::vector<Bytes> bytes;
    bytes.reserve(slots_);
    for (const KernelMemory& kernel :
         memory_curve(trace_, vitality_, machine_.device.frame_bytes).kernels) {
      bytes.push_back(kernel.live_bytes);
    }
    return bytes;
  }
  // A kernel of no length counts a little, so that its excess is taken away too.
  static std::vector<std::uint64_t> weights(const std::vector<TimeNs>& slot_ns) {
    std::vector<std::uint64_t> all;
    all.reserve(slot_ns.size());
    for (const TimeNs ns : slot_ns) {
      all.push_back(static_cast<std::uint64_t>(ns) + 1);
    }
    return all;
  }
  [[nodiscard]] std::size_t first_slot(const InactivePeriod& period) const {
    return period.after + std::size_t{1};
  }
  [[nodiscard]] std::size_t end_slot(const InactivePeriod& period) const {
    return period.wraps ? period.until + slots_ : period.until;
  }
  // What its tensor takes on the device.
  [[nodiscard]] Bytes bytes_of(const InactivePeriod& period) const { return bytes_[period.tensor]; }

  [[nodiscard]] const Channels& channels() const {
    return timing_ == Timing::kHidden ? channels_ : idle_channels_;
  }
  // The last slot in which the period's tensor leaves for the tier; where kernels may wait for it,
  // it is gone before the next one.
  [[nodiscard]] std::optional<std::size_t> evicted_by(const InactivePeriod& period,
                                                      Tier tier) const {
    if (timing_ == Timing::kStalling) {
      return period.after;
    }
    return channels().earliest_end(tier, bytes_of(period), first_slot(period), end_slot(period));
  }
  [[nodiscard]] std::optional<Window> window_from(const InactivePeriod& period, Tier tier,
                                                  std::size_t evicted) const {
    if (timing_ == Timing::kStalling) {
      return Window{tier, evicted, end_slot(period)};  // back before the kernel that waits for it
    }
    const auto fetch =
        channels().latest_start(tier, bytes_of(period), end_slot(period), evicted + 1);
    return fetch ? std::optional(Window{tier, evicted, *fetch}) : std::nullopt;
  }
  [[nodiscard]] std::optional<Window> window_in(const InactivePeriod& period, Tier tier) const {
    const auto evicted = evicted_by(period, tier);
    return evicted ? window_from(period, tier, *evicted) : std::nullopt;
  }

  [[nodiscard]] bool host_has_room(const InactivePeriod& period) const {
    return !host_.over_limit_with(first_slot(period), end_slot(period), bytes_of(period));
  }

  // Storage first, for its size; host memory when storage is too busy for the tensor to go at once
  // and come back in time (algorithm 1, lines 7 to 17).
  [[nodiscard]] std::optional<Window> choose(std::size_t index) const {
    const InactivePeriod& period = vitality_.periods[index];
    if (timing_ != Timing::kHidden && options_.uses_host && host_has_room(period)) {
      return window_in(period, Tier::kHost);  // what makes kernels wait goes the fastest way
    }
    const std::optional<std::size_t> stored =
        options_.uses_storage ? evicted_by(period, Tier::kStorage) : std::nullopt;
    const bool delayed = stored && storage_delays(period, *stored);
    if (stored && !delayed) {
      if (const auto storage = window_from(period, Tier::kStorage, *stored)) {
        return storage;
      }
    }
    if (options_.uses_host && host_has_room(period)) {
      if (const auto host = window_in(period, Tier::kHost)) {
        return host;
      }
    }
    return delayed ? window_from(period, Tier::kStorage, *stored) : std::nullopt;
  }

  // Whether other evictions would delay this one: it ends later than it would on idle storage.
  [[nodiscard]] bool storage_delays(const InactivePeriod& period, std::size_t evicted) const {
    const double alone_ns =
        static_cast<double>(bytes_of(period)) * 1e9 / machine_.storage.write_bytes_per_s;
    const auto elapsed_ns = static_cast<double>(start_ns_[evicted] - start_ns_[first_slot(period)]);
    return elapsed_ns >= alone_ns;
  }

  // Pressure above the capacity that the eviction takes away, times how long, over what it costs:
  // the bytes that move (figure 7).
  [[nodiscard]] double value_of(std::size_t index, const Window& window) const {
    const Bytes bytes = bytes_of(vitality_.periods[index]);
    return pressure_.relief(window.evicted + 1, window.fetch, bytes) / static_cast<double>(bytes);
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
    taken_[index] = true;
    schedule_.periods.push_back({index, window.to, window.evicted, window.fetch, window.fetch});
    pressure_.subtract(window.evicted + 1, window.fetch, bytes);
    if (window.to == Tier::kHost) {
      host_.add(first_slot(period), end_slot(period), bytes);
    }
  }

  const Trace& trace_;
  const Vitality& vitality_;
  const Machine& machine_;
  const G10Options& options_;
  Channels channels_;
  Channels idle_channels_;
  std::vector<bool> taken_;
  Timing timing_ = Timing::kHidden;
  EvictionSchedule schedule_;
  struct Known {
    Choice choice;
    std::size_t accepted = ~std::size_t{0};  // periods when it was made
  };
  std::vector<Bytes> bytes_;          // by tensor
  std::vector<std::uint32_t> twins_;  // by period: a number that its twins share
  std::vector<Known> known_;          // by that number
  std::size_t slots_;
  PressureCurve pressure_;
  PressureCurve host_;            // host memory that is in use
  std::vector<TimeNs> start_ns_;  // by slot, of two rounds; one more
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
  Scheduler scheduler(trace, vitality, machine, options, slot_ns);
  EvictionSchedule schedule = scheduler.hidden();
  return options.stalling ? scheduler.stalling() : schedule;
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

  std::optional<Scheduler> scheduler;
  scheduler.emplace(trace, vitality, planned, options, slot_ns);
  EvictionSchedule hidden = scheduler->hidden();
  const bool fits = hidden.fits;
  consider(std::move(hidden));
  // Where the copies cannot all hide behind the kernels, some kernels will wait. Which ones depends
  // on the plan, and the best plan on which ones: plan, look where the waiting is, plan again.
  for (int round = 0; !fits && round < kRounds; ++round) {
    if (round > 0) {
      scheduler.emplace(trace, vitality, planned, options, slot_ns);
      (void)scheduler->hidden();
    }
    consider(scheduler->stalling());
    consider(schedule_dilated(trace, vitality, planned, options, slot_ns));
    slot_ns = best_estimate.slot_ns;
  }
  best.estimated_ns = best_estimate.iteration_ns;
  return best;
}

}  // namespace spillway
