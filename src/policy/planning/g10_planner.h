// G10's planner: which tensors leave the device during which of their inactive periods, where to,
// and when they come back. Layer: policy. Sections 4.3 (algorithm 1) and 4.4 of the paper;
// docs/policies.md says what is ours.
#pragma once

#include <vector>

#include "analysis/vitality.h"
#include "machine/machine.h"
#include "policy/planning/plan.h"
#include "trace/trace.h"

namespace spillway {

struct G10Options {
  bool uses_host = true;
  bool uses_storage = true;
  // Whether algorithm 1 goes on, when no copy that hides behind kernels helps any more, with copies
  // that kernels will wait for.
  bool stalling = false;
};

// An inactive period that the planner has decided to use.
struct PlannedPeriod {
  std::size_t period = 0;  // index into Vitality::periods
  Tier to = Tier::kStorage;
  // Slots of the ring of kernels, counted on beyond its end where the period wraps.
  std::size_t evicted = 0;       // the kernel during which the last byte leaves
  std::size_t latest_fetch = 0;  // the kernel at whose start the fetch must begin, at the latest
  std::size_t fetch = 0;         // the kernel at whose start it does begin
};

// Algorithm 1 and eager prefetching; where the copies cannot all hide behind the kernels, tried
// with several ideas of where the waiting will be, and the best by estimate_plan kept. The trace
// must be valid, the vitality that trace's own. Deterministic. A choice takes a few steps however
// long its period is, but there are far more choices than periods: what one takes makes others
// worth less.
[[nodiscard]] Plan plan_g10(const Trace& trace, const Vitality& vitality, const Machine& machine,
                            const G10Options& options);

// The two halves, for tests: algorithm 1 on given slot times, and the eager prefetch of
// section 4.4, which moves `fetch` of each period forward as far as memory allows. Pressure is the
// planned device memory during each kernel; both keep it up to date.
struct EvictionSchedule {
  std::vector<PlannedPeriod> periods;
  std::vector<Bytes> pressure_bytes;  // by kernel
  bool fits = true;                   // no kernel above the capacity
};
[[nodiscard]] EvictionSchedule schedule_evictions(const Trace& trace, const Vitality& vitality,
                                                  const Machine& machine, const G10Options& options,
                                                  const std::vector<TimeNs>& slot_ns);
void schedule_eager_prefetches(const Trace& trace, const Vitality& vitality, const Machine& machine,
                               EvictionSchedule& schedule);

}  // namespace spillway
