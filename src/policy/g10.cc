// See g10.h.
#include "policy/g10.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/vitality.h"
#include "base/rng.h"
#include "policy/planned.h"
#include "policy/planning/g10_planner.h"
#include "policy/planning/planned_ahead.h"

namespace spillway {
namespace {

// The trace as a profiler that errs would have measured it (section 7.6): every kernel's time is
// off by its own factor, uniform within the error.
Trace with_profiling_error(const Trace& trace, const PolicyOptions& options) {
  Trace profiled = trace;
  Rng rng(options.profiling_seed);
  for (Kernel& kernel : profiled.kernels) {
    const double factor = 1 + options.profiling_error * (2 * rng.uniform() - 1);
    kernel.duration_ns =
        std::max<TimeNs>(1, std::llround(static_cast<double>(kernel.duration_ns) * factor));
  }
  return profiled;
}

Plan plan(const Trace& trace, const Machine& machine, const PolicyOptions& options,
          bool uses_host) {
  const Trace profiled = with_profiling_error(trace, options);
  const Vitality vitality = analyze_vitality(profiled);
  return plan_g10(profiled, vitality, machine,
                  {.uses_host = uses_host && machine.host.capacity_bytes > 0,
                   .uses_storage = machine.storage.capacity_bytes > 0});
}

Result<std::unique_ptr<Policy>> carry_out(std::string_view name, const Trace& trace,
                                          Result<Plan> plan, Tier overflow) {
  return std::make_unique<Planned>(name, trace, std::move(*plan), overflow);
}

}  // namespace

Result<Plan> plan_g10_gds(const Trace& trace, const Machine& machine,
                          const PolicyOptions& options) {
  return plan(trace, machine, options, false);
}

Result<Plan> plan_g10_host(const Trace& trace, const Machine& machine,
                           const PolicyOptions& options) {
  return plan(trace, machine, options, true);
}

Result<Plan> plan_g10(const Trace& trace, const Machine& machine, const PolicyOptions& options) {
  return plan(trace, machine, options, true);
}

Result<std::unique_ptr<Policy>> make_g10_gds(const Trace& trace, const Machine& machine,
                                             const PolicyOptions& options) {
  return carry_out("g10_gds", trace, plan_g10_gds(trace, machine, options), Tier::kStorage);
}

Result<std::unique_ptr<Policy>> make_g10_host(const Trace& trace, const Machine& machine,
                                              const PolicyOptions& options) {
  return carry_out("g10_host", trace, plan_g10_host(trace, machine, options), Tier::kHost);
}

Result<std::unique_ptr<Policy>> make_g10(const Trace& trace, const Machine& machine,
                                         const PolicyOptions& options) {
  return carry_out("g10", trace, plan_g10(trace, machine, options), Tier::kHost);
}

Result<std::unique_ptr<Policy>> make_g10_with_queue(const Trace& trace, const Machine& machine,
                                                    const PolicyOptions& options) {
  return std::make_unique<PlannedAhead>(
      std::make_unique<Planned>("g10", trace, plan(trace, machine, options, true), Tier::kHost));
}

}  // namespace spillway
