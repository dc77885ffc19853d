// See autovm.h.
#include "policy/autovm.h"

#include <algorithm>
#include <utility>

#include "analysis/memory_curve.h"
#include "policy/flashneuron.h"
#include "policy/planned.h"
#include "policy/planning/plan_estimate.h"

namespace spillway {
namespace {

constexpr std::size_t kMostSizes = 32;

bool uses(const Kernel& kernel, TensorId id) { return reads(kernel, id) || writes(kernel, id); }

// Memory beside which prefetched tensors must fit, kernel by kernel.
class Room {
 public:
  Room(const Trace& trace, const MemoryCurve& curve, const Machine& machine, WorkingSet counts,
       const std::vector<Offload>& offloads)
      : trace_(trace), machine_(machine) {
    used_.reserve(curve.kernels.size());
    for (const KernelMemory& kernel : curve.kernels) {
      used_.push_back(counts == WorkingSet::kOperands ? kernel.active_bytes : kernel.live_bytes);
    }
    if (counts == WorkingSet::kOperands) {
      return;
    }
    for (const Offload& offload : offloads) {
      for (KernelIndex index = offload.after + 1; index <= offload.last_use; ++index) {
        used_[index] -= uses(trace_.kernels[index], offload.tensor) ? 0 : bytes_of(offload.tensor);
      }
    }
  }

  [[nodiscard]] Bytes bytes_of(TensorId id) const {
    return round_up(trace_.tensors[id].bytes, machine_.device.frame_bytes);
  }
  [[nodiscard]] bool fits(KernelIndex index, TensorId id) const {
    return used_[index] + bytes_of(id) <= machine_.device.capacity_bytes;
  }
  // The tensor is there from kernel `from` until its last use.
  void take(const Offload& offload, KernelIndex from) {
    for (KernelIndex index = from; index <= offload.last_use; ++index) {
      used_[index] += uses(trace_.kernels[index], offload.tensor) ? 0 : bytes_of(offload.tensor);
    }
  }

 private:
  const Trace& trace_;
  const Machine& machine_;
  std::vector<Bytes> used_;
};

// Listing 3.4, over the kernels of the backward pass before the use.
std::optional<KernelIndex> earliest(const Room& room, const Offload& offload, KernelIndex first) {
  KernelIndex from = offload.needed;
  while (from > first && room.fits(from - 1, offload.tensor)) {
    --from;
  }
  return from < offload.needed ? std::optional(from) : std::nullopt;
}

// Listing 3.3: what is in between must fit, all of it.
std::optional<KernelIndex> latest(const Trace& trace, const Machine& machine, const Room& room,
                                  const Offload& offload, KernelIndex first) {
  const double copy_ns = static_cast<double>(trace.tensors[offload.tensor].bytes) /
                         machine.link.to_device_bytes_per_s * 1e9;
  KernelIndex from = offload.needed;
  double hidden_ns = 0;
  while (from > first && hidden_ns < copy_ns) {
    --from;
    hidden_ns += static_cast<double>(trace.kernels[from].duration_ns);
    if (!room.fits(from, offload.tensor)) {
      return std::nullopt;
    }
  }
  return from < offload.needed ? std::optional(from) : std::nullopt;
}

// A copy in that begins before one that is needed earlier: both begin then, in the order of need,
// if the earlier one fits there too (figure 3.5).
void put_in_order(Room& room, std::vector<Offload>& offloads) {
  std::optional<KernelIndex> next;
  for (std::size_t i = offloads.size(); i-- > 0;) {
    Offload& offload = offloads[i];
    if (!offload.prefetch) {
      continue;
    }
    KernelIndex from = *offload.prefetch;
    while (next && *next < from && room.fits(from - 1, offload.tensor)) {
      --from;
    }
    offload.prefetch = next = from;
  }
}

// The steps between kernels: what leaves and what is dead, then what is made and what comes.
class Steps {
 public:
  explicit Steps(std::size_t kernels) : leave_(kernels), come_(kernels) {}

  void after(KernelIndex index, const PlanAction& action) {
    leave_[(index + std::size_t{1}) % leave_.size()].push_back(action);
  }
  void before(KernelIndex index, const PlanAction& action) { come_[index].push_back(action); }

  std::vector<std::vector<PlanAction>> take() {
    for (std::size_t index = 0; index < leave_.size(); ++index) {
      leave_[index].insert(leave_[index].end(), come_[index].begin(), come_[index].end());
    }
    return std::move(leave_);
  }

 private:
  std::vector<std::vector<PlanAction>> leave_;
  std::vector<std::vector<PlanAction>> come_;
};

bool all_fit(const MemoryCurve& curve, const std::vector<Offload>& offloads, const Trace& trace,
             const Machine& machine) {
  std::vector<Bytes> away(curve.kernels.size(), 0);
  for (const Offload& offload : offloads) {
    const KernelIndex until = offload.prefetch.value_or(offload.needed);
    for (KernelIndex index = offload.after + 1; index < until; ++index) {
      away[index] += round_up(trace.tensors[offload.tensor].bytes, machine.device.frame_bytes);
    }
  }
  for (std::size_t index = 0; index < away.size(); ++index) {
    if (curve.kernels[index].live_bytes - away[index] > machine.device.capacity_bytes) {
      return false;
    }
  }
  return true;
}

class Planning {
 public:
  Planning(const Trace& trace, const Machine& machine, const AutoVmOptions& options)
      : trace_(trace),
        machine_(machine),
        options_(options),
        vitality_(analyze_vitality(trace)),
        curve_(memory_curve(trace, vitality_, machine.device.frame_bytes)),
        loss_(forward_end(trace, vitality_)) {}

  Plan run() {
    if (curve_.peak_live_bytes <= machine_.device.capacity_bytes) {
      return plan_for({});
    }
    if (options_.least_bytes) {
      return plan_for(offloads(*options_.least_bytes));
    }
    return tuned();
  }

 private:
  [[nodiscard]] std::vector<Offload> offloads(Bytes least_bytes) const {
    return offloads_of(trace_, vitality_, loss_, least_bytes, options_.least_distance);
  }

  // Section 6.5.1: an exhaustive search, for between two sizes the plan is the same. From the
  // largest on: of equal plans the one that moves less.
  Plan tuned() {
    std::vector<Bytes> sizes;
    for (const Offload& offload : offloads(0)) {
      sizes.push_back(trace_.tensors[offload.tensor].bytes);
    }
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    Plan best = plan_for({});
    const std::size_t tried = std::min(sizes.size(), kMostSizes);
    for (std::size_t i = 1; i <= tried; ++i) {
      Plan plan = plan_for(offloads(sizes[i * sizes.size() / tried - 1]));
      if (plan.estimated_ns < best.estimated_ns) {
        best = std::move(plan);
      }
    }
    return best;
  }

  Plan plan_for(std::vector<Offload> offloads) {
    schedule_prefetches(trace_, vitality_, loss_, machine_, options_, offloads);
    Steps steps(trace_.kernels.size());
    Plan plan;
    for (TensorId id = 0; id < trace_.tensors.size(); ++id) {
      const std::optional<TensorLife>& life = vitality_.lives[id];
      if (life && !trace_.tensors[id].persistent) {
        steps.before(life->first_use, {PlanStep::kAlloc, id});
        steps.after(life->last_use, {PlanStep::kFree, id});
      }
    }
    for (const Offload& offload : offloads) {
      steps.after(offload.after, {PlanStep::kPreEvict, offload.tensor, Tier::kHost});
      if (offload.prefetch) {
        steps.before(*offload.prefetch, {PlanStep::kPrefetch, offload.tensor});
      }
      plan.to_host_bytes += trace_.tensors[offload.tensor].bytes;
    }
    plan.before = steps.take();
    plan.fits = all_fit(curve_, offloads, trace_, machine_);
    plan.estimated_ns = estimate_plan(plan, trace_, machine_).iteration_ns;
    return plan;
  }

  const Trace& trace_;
  const Machine& machine_;
  const AutoVmOptions& options_;
  Vitality vitality_;
  MemoryCurve curve_;
  KernelIndex loss_;
};

}  // namespace

std::vector<Offload> offloads_of(const Trace& trace, const Vitality& vitality, KernelIndex loss,
                                 Bytes least_bytes, std::uint32_t least_distance) {
  std::vector<Offload> made;
  for (const InactivePeriod& period : vitality.periods) {
    const Tensor& tensor = trace.tensors[period.tensor];
    const std::optional<TensorLife>& life = vitality.lives[period.tensor];
    // The one period of a tensor that begins in the forward pass and ends in the backward pass.
    const bool crosses = !period.wraps && period.after <= loss && period.until > loss;
    if (!life || !crosses || tensor.persistent || tensor.bytes < least_bytes ||
        period.until - period.after - 1 < least_distance) {
      continue;
    }
    made.push_back({.tensor = period.tensor,
                    .after = period.after,
                    .needed = period.until,
                    .last_use = life->last_use});
  }
  std::stable_sort(made.begin(), made.end(), [](const Offload& one, const Offload& other) {
    return one.needed < other.needed;
  });
  return made;
}

void schedule_prefetches(const Trace& trace, const Vitality& vitality, KernelIndex loss,
                         const Machine& machine, const AutoVmOptions& options,
                         std::vector<Offload>& offloads) {
  const MemoryCurve curve = memory_curve(trace, vitality, machine.device.frame_bytes);
  Room room(trace, curve, machine, options.working_set, offloads);
  KernelIndex first = loss + 1;
  for (Offload& offload : offloads) {
    offload.prefetch = options.timing == PrefetchTiming::kEarly
                           ? earliest(room, offload, first)
                           : latest(trace, machine, room, offload, first);
    // What is demand-paged is there from its use on.
    room.take(offload, offload.prefetch.value_or(offload.needed));
    if (options.timing == PrefetchTiming::kEarly) {
      first = offload.prefetch.value_or(first);
    }
  }
  if (options.timing == PrefetchTiming::kLate) {
    put_in_order(room, offloads);
  }
}

Plan plan_autovm(const Trace& trace, const Machine& machine, const AutoVmOptions& options) {
  return Planning(trace, machine, options).run();
}

Result<Plan> plan_autovm(const Trace& trace, const Machine& machine,
                         const PolicyOptions& /*options*/) {
  return plan_autovm(trace, machine, AutoVmOptions{});
}

std::unique_ptr<Policy> follow_autovm(const Trace& trace, Plan plan) {
  auto planned = std::make_unique<Planned>("autovm", trace, std::move(plan), Tier::kHost,
                                           Planned::Victims::kOldest);
  planned->bind_operands(trace);
  return planned;
}

Result<std::unique_ptr<Policy>> make_autovm(const Trace& trace, const Machine& machine,
                                            const PolicyOptions& options) {
  return follow_autovm(trace, *plan_autovm(trace, machine, options));
}

}  // namespace spillway
