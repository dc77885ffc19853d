// Jobs for the simulator, and what their outcomes say. See estimate.h.
#include "runtime/estimate.h"

#include <algorithm>
#include <array>
#include <utility>

#include "analysis/memory_curve.h"
#include "analysis/vitality.h"
#include "policy/registry.h"
#include "runtime/report/fits_in.h"

namespace spillway {
namespace {

// Up to so many times as long a step counts as equally long.
constexpr double kAlike = 1.05;
constexpr Bytes kTorchRoundsTo = 512;

BatchJob estimate_job(const EstimateCase& of, const PolicyInfo& policy) {
  return {of.trace, of.machine, &policy, estimate_options()};
}

// With memory enough, under the policy and, where that is known, with checkpointing.
std::vector<BatchJob> first_jobs(std::span<const EstimateCase> cases, const PolicyInfo& policy) {
  const PolicyInfo& ideal = *find_policy("ideal").value();
  std::vector<BatchJob> jobs;
  for (const EstimateCase& each : cases) {
    jobs.push_back(estimate_job(each, ideal));
    jobs.push_back(estimate_job(each, policy));
    if (each.checkpointed) {
      jobs.push_back({*each.checkpointed, each.machine, &policy, estimate_options()});
    }
  }
  return jobs;
}

bool longer(TimeNs time_ns, TimeNs than_ns) {
  return static_cast<double>(time_ns) > kAlike * static_cast<double>(than_ns);
}

void twice_the_link(Machine& machine) {
  machine.link.to_device_bytes_per_s *= 2;
  machine.link.from_device_bytes_per_s *= 2;
  machine.link.both_ways_bytes_per_s *= 2;
  machine.link.host_mapped_bytes_per_s *= 2;
}

void twice_the_storage(Machine& machine) {
  machine.storage.read_bytes_per_s *= 2;
  machine.storage.write_bytes_per_s *= 2;
  machine.storage.read_latency_ns /= 2;
  machine.storage.write_latency_ns /= 2;
}

void twice_the_handles(Machine& machine) {
  Handles& handles = machine.handles;
  for (TimeNs* const time_ns : {&handles.create_ns, &handles.release_ns, &handles.map_ns,
                                &handles.map_wait_ns, &handles.unmap_ns}) {
    *time_ns /= 2;
  }
  handles.clear_bytes_per_s *= 2;
}

struct WhatIf {
  Limit limit;
  void (*change)(Machine&);
};
constexpr std::array kWhatIfs{WhatIf{Limit::kLink, twice_the_link},
                              WhatIf{Limit::kStorage, twice_the_storage},
                              WhatIf{Limit::kHandles, twice_the_handles}};

// The thing whose doubled speed shortens the step most, if by enough to be seen.
Limit limit_of(const SimulationResult& limited, std::span<const BatchOutcome> what_ifs) {
  Limit limit = Limit::kSeveral;
  TimeNs least_ns = limited.iteration_ns;
  for (std::size_t i = 0; i < what_ifs.size(); ++i) {
    const Result<SimulationResult>& result = what_ifs[i].result;
    if (result && result->iteration_ns < least_ns &&
        longer(limited.iteration_ns, result->iteration_ns)) {
      least_ns = result->iteration_ns;
      limit = kWhatIfs.at(i).limit;
    }
  }
  return limit;
}

// With memory enough the slower of the two decides: who issues launches, or who runs them.
Limit limit_in_memory(const SimulationResult& result, const Machine& machine) {
  const auto launches = static_cast<TimeNs>(result.stats.launches / result.iterations);
  return launches * machine.host.launch_ns > result.ideal_ns ? Limit::kIssuing
                                                             : Limit::kComputation;
}

bool is_failure(const BatchOutcome& outcome) {
  return !outcome.result && outcome.result.error().code != ErrorCode::kCannotRun;
}

// Of the outcomes of its first jobs.
Result<Estimate> estimate_of(const EstimateCase& of, std::span<const BatchOutcome> outcomes) {
  const BatchOutcome& unlimited = outcomes[0];
  if (!unlimited.result) {
    return tl::unexpected<Error>(unlimited.result.error());
  }
  for (const BatchOutcome& outcome : outcomes) {
    if (is_failure(outcome)) {
      return tl::unexpected<Error>(outcome.result.error());
    }
  }
  Estimate estimate{.unlimited = *unlimited.result,
                    .limited = outcomes[1].result,
                    .limit = limit_in_memory(*unlimited.result, of.machine)};
  if (of.checkpointed) {
    estimate.checkpointed = outcomes[2].result;
  }
  return estimate;
}

}  // namespace

SimulationOptions estimate_options() {
  SimulationOptions options;
  options.warm_up_iterations = 4;
  options.iterations = 4;
  options.queue_depth = 300;
  options.as_run = true;
  return options;
}

std::string_view name_of(Limit limit) {
  switch (limit) {
    case Limit::kComputation:
      return "computation";
    case Limit::kIssuing:
      return "issuing launches";
    case Limit::kLink:
      return "link";
    case Limit::kStorage:
      return "storage";
    case Limit::kHandles:
      return "mapping memory";
    case Limit::kSeveral:
      return "several things";
  }
  return "";
}

std::string_view name_of(Fits fits) {
  return fits == Fits::kYes ? "yes" : fits == Fits::kBarely ? "barely" : "no";
}

Bytes peak_bytes_of(const Trace& trace) {
  return memory_curve(trace, analyze_vitality(trace), kTorchRoundsTo).peak_live_bytes;
}

Fits fits_in_device(Bytes peak_bytes, const Machine& machine) {
  const Bytes capacity_bytes = machine.device.capacity_bytes;
  return fits_in_bytes(peak_bytes) <= capacity_bytes ? Fits::kYes
         : peak_bytes <= capacity_bytes              ? Fits::kBarely
                                                     : Fits::kNo;
}

Result<BatchMemory> growth_between(const BatchMemory::Recording& one,
                                   const BatchMemory::Recording& other) {
  return BatchMemory::between(one, other, kTorchRoundsTo);
}

Result<Checkpoints> checkpoints_of(const Trace& trace) {
  return find_checkpoints(trace, kTorchRoundsTo);
}

std::uint64_t largest_batch(const BatchMemory& memory, const Machine& machine) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  // The largest that fits is at least `fits`, and below `too_many`.
  std::uint64_t fits = 0;
  std::uint64_t too_many = kMost;
  while (too_many - fits > 1) {
    const std::uint64_t middle = fits + (too_many - fits) / 2;
    (fits_in_device(memory.peak_bytes(middle), machine) == Fits::kYes ? fits : too_many) = middle;
  }
  return fits;
}

Result<std::vector<Estimate>> estimate(std::span<const EstimateCase> cases,
                                       const PolicyInfo& policy, const BatchRunner& run) {
  const std::vector<BatchOutcome> outcomes = run(first_jobs(cases, policy));
  std::vector<Estimate> estimates;
  std::vector<BatchJob> what_ifs;
  std::vector<std::size_t> slower;  // the cases of those
  std::size_t next = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::size_t count = cases[i].checkpointed ? 3 : 2;
    Result<Estimate> one = estimate_of(cases[i], std::span(outcomes).subspan(next, count));
    next += count;
    if (!one) {
      return tl::unexpected<Error>(one.error());
    }
    estimates.push_back(std::move(*one));
    const Estimate& each = estimates.back();
    if (each.limited && longer(each.limited->iteration_ns, each.unlimited.iteration_ns)) {
      slower.push_back(i);
      for (const WhatIf& what_if : kWhatIfs) {
        what_ifs.push_back(estimate_job(cases[i], policy));
        what_if.change(what_ifs.back().machine);
      }
    }
  }
  const std::vector<BatchOutcome> if_so =
      slower.empty() ? std::vector<BatchOutcome>() : run(what_ifs);
  for (std::size_t i = 0; i < slower.size(); ++i) {
    Estimate& each = estimates[slower[i]];
    each.limit =
        limit_of(*each.limited, std::span(if_so).subspan(i * kWhatIfs.size(), kWhatIfs.size()));
  }
  return estimates;
}

}  // namespace spillway
