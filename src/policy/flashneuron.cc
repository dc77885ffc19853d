// Linear selection and the dry run. See flashneuron.h.
#include "policy/flashneuron.h"

#include <algorithm>
#include <cctype>
#include <deque>
#include <optional>

#include "analysis/memory_curve.h"
#include "policy/correlation/address_pool.h"
#include "policy/planned.h"

namespace spillway {
namespace {

Bytes pages_of(const Trace& trace, const Machine& machine, TensorId id) {
  return round_up(trace.tensors[id].bytes, machine.device.frame_bytes);
}

Bytes weight_bytes(const Trace& trace, const Machine& machine) {
  Bytes bytes = 0;
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    bytes += trace.tensors[id].persistent ? pages_of(trace, machine, id) : 0;
  }
  return bytes;
}

// The operands of a kernel, each once.
std::vector<TensorId> operands_of(const Kernel& kernel) {
  std::vector<TensorId> operands = kernel.reads;
  for (const TensorId id : kernel.writes) {
    if (!reads(kernel, id)) {
      operands.push_back(id);
    }
  }
  return operands;
}

// Runs the program once over contiguous memory, with one clock for storage each way, and writes
// down when each offload and each fetch is asked for.
class DryRun {
 public:
  DryRun(const Trace& trace, const Vitality& vitality, const Machine& machine,
         const std::vector<TensorId>& selected)
      : trace_(trace),
        vitality_(vitality),
        machine_(machine),
        pool_(machine.device.capacity_bytes),
        states_(trace.tensors.size()),
        forward_end_(forward_end(trace, vitality)) {
    plan_.before.resize(trace.kernels.size());
    for (const Kernel& kernel : trace.kernels) {
      Bytes bytes = 0;
      for (const TensorId id : operands_of(kernel)) {
        bytes += trace.tensors[id].persistent ? 0 : bytes_of(id);
      }
      largest_kernel_bytes_ = std::max(largest_kernel_bytes_, bytes);
    }
    for (const TensorId id : selected) {
      states_[id].selected = true;
    }
  }

  Result<Plan> run() {
    for (TensorId id = 0; id < states_.size(); ++id) {
      if (trace_.tensors[id].persistent && !place(id)) {
        return cannot_run(0, id);
      }
    }
    if (!reserve_work_space()) {
      return make_error(ErrorCode::kCannotRun,
                        "the weights leave no contiguous room for the largest work space");
    }
    for (KernelIndex index = 0; index < trace_.kernels.size(); ++index) {
      const std::vector<TensorId> operands = operands_of(trace_.kernels[index]);
      while (index == forward_end_ && !leaving_.empty()) {
        leave_first();  // the backward pass begins when every offload has ended
      }
      for (const TensorId id : operands) {
        if (is_work_space(id)) {
          plan_.before[index].push_back({PlanStep::kAlloc, id});
        } else if (!make_resident(id, index)) {
          return cannot_run(index, id);
        }
      }
      now_ns_ += static_cast<double>(trace_.kernels[index].duration_ns);
      settle(now_ns_);
      finish(index, operands);
    }
    plan_.estimated_ns = static_cast<TimeNs>(now_ns_);
    return std::move(plan_);
  }

 private:
  struct State {
    std::optional<Bytes> start;  // on the device
    bool selected = false;
    bool offloaded = false;  // its contents are in storage only
    double there_ns = 0;     // usable from then on
  };
  struct Leaving {
    double at_ns;
    TensorId tensor;
  };

  [[nodiscard]] Bytes bytes_of(TensorId id) const { return pages_of(trace_, machine_, id); }

  // A kernel's work space is its last operand (G10 figure 9), where no other kernel uses it. All of
  // it shares one range, as large as the largest, kept for good.
  [[nodiscard]] bool is_work_space(TensorId id) const {
    const std::optional<TensorLife>& life = vitality_.lives[id];
    if (trace_.tensors[id].persistent || !life || life->first_use != life->last_use) {
      return false;
    }
    const std::vector<TensorId>& writes = trace_.kernels[life->first_use].writes;
    return !writes.empty() && writes.back() == id;
  }
  bool reserve_work_space() {
    Bytes largest = 0;
    for (TensorId id = 0; id < states_.size(); ++id) {
      largest = std::max(largest, is_work_space(id) ? bytes_of(id) : 0);
    }
    return largest == 0 || pool_.take_left(largest).has_value();
  }

  bool place(TensorId id) {
    State& state = states_[id];
    state.start = state.selected ? pool_.take_right(bytes_of(id)) : pool_.take_left(bytes_of(id));
    return state.start.has_value();
  }

  void give_back(TensorId id) {
    State& state = states_[id];
    if (state.start) {
      pool_.give_back(*state.start, bytes_of(id));
      state.start.reset();
    }
  }

  // The offloads that have ended give back their memory.
  void settle(double until_ns) {
    while (!leaving_.empty() && leaving_.front().at_ns <= until_ns) {
      leave_first();
    }
  }

  void leave_first() {
    now_ns_ = std::max(now_ns_, leaving_.front().at_ns);
    give_back(leaving_.front().tensor);
    leaving_.pop_front();
  }

  bool make_resident(TensorId id, KernelIndex index) {
    State& state = states_[id];
    if (!state.start) {
      while (!place(id)) {
        if (leaving_.empty()) {
          return false;
        }
        leave_first();
      }
      state.there_ns = now_ns_;
      if (state.offloaded) {
        fetch(id, index);
      } else if (!trace_.tensors[id].persistent) {
        plan_.before[index].push_back({PlanStep::kAlloc, id});
      }
    }
    now_ns_ = std::max(now_ns_, state.there_ns);
    return true;
  }

  void fetch(TensorId id, KernelIndex before) {
    State& state = states_[id];
    in_free_ns_ = std::max(in_free_ns_, now_ns_) +
                  static_cast<double>(bytes_of(id)) * 1e9 / machine_.storage.read_bytes_per_s;
    state.there_ns = in_free_ns_;
    state.offloaded = false;
    plan_.before[before].push_back({PlanStep::kPrefetch, id});
  }

  // After kernel `index`: what has died gives back its memory, what is selected leaves after its
  // last use in the forward pass, and in the backward pass what is used next comes back while there
  // is room. What the last kernel gives back stands before the first one of the next iteration, and
  // there before what that one takes, which the plan has already.
  void finish(KernelIndex index, const std::vector<TensorId>& operands) {
    const std::size_t next = (index + std::size_t{1}) % trace_.kernels.size();
    std::vector<PlanAction> given_back;
    for (const TensorId id : operands) {
      const std::optional<TensorLife>& life = vitality_.lives[id];
      if (trace_.tensors[id].persistent || !life) {
        continue;
      }
      if (life->last_use == index) {
        give_back(id);
        given_back.push_back({PlanStep::kFree, id});
      } else if (states_[id].selected && last_forward_use(id, *life) == index) {
        out_free_ns_ = std::max(out_free_ns_, now_ns_) +
                       static_cast<double>(bytes_of(id)) * 1e9 / machine_.storage.write_bytes_per_s;
        leaving_.push_back({out_free_ns_, id});
        states_[id].offloaded = true;
        given_back.push_back({PlanStep::kPreEvict, id, Tier::kStorage});
        plan_.to_storage_bytes += trace_.tensors[id].bytes;
      }
    }
    plan_.before[next].insert(plan_.before[next].begin(), given_back.begin(), given_back.end());
    if (index >= forward_end_ && next != 0) {
      fetch_ahead(static_cast<KernelIndex>(next));
    }
  }

  void fetch_ahead(KernelIndex next) {
    const Bytes largest = pool_.largest_free_bytes();
    Bytes room = largest > largest_kernel_bytes_ ? largest - largest_kernel_bytes_ : 0;
    for (KernelIndex index = next; index < trace_.kernels.size(); ++index) {
      for (const TensorId id : operands_of(trace_.kernels[index])) {
        if (!states_[id].offloaded || states_[id].start) {
          continue;
        }
        if (bytes_of(id) >= room || !place(id)) {
          return;
        }
        room -= bytes_of(id);
        fetch(id, next);
      }
    }
  }

  [[nodiscard]] KernelIndex last_forward_use(TensorId id, const TensorLife& life) const {
    KernelIndex last = life.first_use;
    for (const InactivePeriod& period : vitality_.periods) {
      if (period.tensor == id && period.after <= forward_end_) {
        last = period.after;
      }
    }
    return last;
  }

  [[nodiscard]] tl::unexpected<Error> cannot_run(KernelIndex index, TensorId id) const {
    return make_error(
        ErrorCode::kCannotRun,
        "kernel {} ({}) needs {} in one piece, and contiguous device memory has only {}", index,
        trace_.kernels[index].name, format_bytes(bytes_of(id)),
        format_bytes(pool_.largest_free_bytes()));
  }

  const Trace& trace_;
  const Vitality& vitality_;
  const Machine& machine_;
  AddressPool pool_;
  std::vector<State> states_;
  KernelIndex forward_end_;
  Bytes largest_kernel_bytes_ = 0;
  Plan plan_;
  std::deque<Leaving> leaving_;
  double now_ns_ = 0;
  double out_free_ns_ = 0;
  double in_free_ns_ = 0;
};

}  // namespace

KernelIndex forward_end(const Trace& trace, const Vitality& vitality) {
  for (KernelIndex index = 0; index < trace.kernels.size(); ++index) {
    std::string name = trace.kernels[index].name;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name.find("loss") != std::string::npos) {
      return index;
    }
  }
  return memory_curve(trace, vitality).peak_kernel;
}

Result<std::vector<TensorId>> select_linearly(const Trace& trace, const Vitality& vitality,
                                              const Machine& machine) {
  const Bytes weights = weight_bytes(trace, machine);
  const Bytes kernel =
      memory_curve(trace, vitality, machine.device.frame_bytes).largest_working_set_bytes;
  const Bytes capacity = machine.device.capacity_bytes;
  if (weights + kernel >= capacity) {
    return make_error(ErrorCode::kCannotRun,
                      "weights of {} and the largest kernel's {} leave no room on a device of {}",
                      format_bytes(weights), format_bytes(kernel), format_bytes(capacity));
  }
  const Bytes line = capacity - weights - kernel;
  const KernelIndex end = forward_end(trace, vitality);
  std::vector<TensorId> candidates;
  Bytes remaining = 0;
  std::vector<bool> seen(trace.tensors.size(), false);
  for (KernelIndex index = 0; index < end; ++index) {
    for (const TensorId id : operands_of(trace.kernels[index])) {
      const std::optional<TensorLife>& life = vitality.lives[id];
      if (!seen[id] && !trace.tensors[id].persistent && life && life->last_use > end) {
        seen[id] = true;
        candidates.push_back(id);
        remaining += pages_of(trace, machine, id);
      }
    }
  }
  std::vector<TensorId> selected;
  for (const TensorId id : candidates) {
    if (remaining < line) {
      break;
    }
    selected.push_back(id);
    remaining -= pages_of(trace, machine, id);
  }
  return selected;
}

Result<Plan> plan_flashneuron(const Trace& trace, const Machine& machine,
                              const PolicyOptions& /*options*/) {
  const Vitality vitality = analyze_vitality(trace);
  const Result<std::vector<TensorId>> selected = select_linearly(trace, vitality, machine);
  if (!selected) {
    return tl::unexpected<Error>(selected.error());
  }
  return DryRun(trace, vitality, machine, *selected).run();
}

Result<std::unique_ptr<Policy>> make_flashneuron(const Trace& trace, const Machine& machine,
                                                 const PolicyOptions& options) {
  Result<Plan> plan = plan_flashneuron(trace, machine, options);
  if (!plan) {
    return tl::unexpected<Error>(plan.error());
  }
  return std::make_unique<Planned>("flashneuron", trace, std::move(*plan), Tier::kStorage);
}

}  // namespace spillway
