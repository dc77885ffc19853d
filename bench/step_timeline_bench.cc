// One iteration of a trace as it runs on a simulated machine, launch by launch: what docs/step.svg
// is drawn of (tools/draw_step.py). A line for each launch, in the order in which they ended: when
// it began and when it ended, in nanoseconds from the iteration's beginning, and how many bytes the
// link had carried to the device and from it by then. The first line says how long the iteration
// takes, and without waiting. Set up as `spillway simulate --as-run` is.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure.h"
#include "machine/load.h"
#include "platform/sim/replay.h"
#include "platform/sim/simulator.h"
#include "policy/admission_governor.h"
#include "policy/registry.h"
#include "trace/generate.h"
#include "trace/read.h"

namespace spillway {
namespace {

struct Options {
  std::string trace;  // a file; empty: a transformer that is made up
  std::string policy = "lookahead";
  std::string machine = "h200";
  std::vector<std::string> settings;
  std::uint32_t iteration = 6;  // which of them, from 1
  std::uint32_t queue_depth = 300;
};

struct Sample {
  TimeNs began_ns = 0;
  TimeNs ended_ns = 0;
  double in_bytes = 0;
  double out_bytes = 0;
};

Result<Trace> trace_of(const Options& options) {
  if (options.trace.empty()) {
    return generate_transformer({});
  }
  return read_trace(options.trace);
}

void print(const std::vector<Sample>& samples, TimeNs from_ns, TimeNs to_ns, TimeNs ideal_ns) {
  fmt::print("{} {}\n", to_ns - from_ns, ideal_ns);
  const Sample* before = nullptr;
  for (const Sample& it : samples) {
    if (it.ended_ns > to_ns) {
      break;
    }
    if (it.ended_ns > from_ns && before != nullptr) {
      fmt::print("{} {} {:.0f} {:.0f}\n", it.began_ns - from_ns, it.ended_ns - from_ns,
                 it.in_bytes - before->in_bytes, it.out_bytes - before->out_bytes);
    } else {
      before = &it;
    }
  }
}

Status run(const Options& options) {
  const Result<Trace> trace = trace_of(options);
  if (!trace) {
    return tl::unexpected<Error>(trace.error());
  }
  const Result<Machine> machine = configured_machine(options.machine, options.settings);
  if (!machine) {
    return tl::unexpected<Error>(machine.error());
  }
  const Result<const PolicyInfo*> info = find_policy(options.policy);
  if (!info) {
    return tl::unexpected<Error>(info.error());
  }
  const auto make = (*info)->make_with_queue != nullptr ? (*info)->make_with_queue : (*info)->make;
  const Result<std::unique_ptr<Policy>> policy = make(*trace, *machine, {});
  if (!policy) {
    return tl::unexpected<Error>(policy.error());
  }
  PolicyTraits traits = (*info)->traits;
  traits.told_of_deaths = true;
  traits.reclaims_dead_first = true;
  traits.clean_copies = CleanCopies::kAll;
  AdmissionGovernor patience(**policy);
  sim::Simulator simulator(*machine, sim::simulator_options(*machine, traits), patience);
  std::vector<Sample> samples;
  simulator.on_finished = [&](const sim::LaunchTiming& it) {
    samples.push_back({.began_ns = it.finished_ns - it.duration_ns,
                       .ended_ns = it.finished_ns,
                       .in_bytes = simulator.links().carried_bytes(sim::Resource::kToDevice),
                       .out_bytes = simulator.links().carried_bytes(sim::Resource::kFromDevice)});
  };
  sim::Replay replay(
      *trace,
      {.tells_deaths = true,
       .pages = traits.pages,
       .queue_depth = options.queue_depth,
       .launch_ns = machine->host.launch_ns,
       .tracked_ns = machine->host.tracked_ns,
       .block_bytes = sim::block_bytes(*machine),
       .shared_frame_bytes = (*info)->plan == nullptr ? machine->device.frame_bytes : 0},
      simulator);
  if (Status prepared = replay.prepare(); !prepared) {
    return prepared;
  }
  patience.alive_at_most(replay.peak_bytes(), machine->device.capacity_bytes);
  const std::vector<std::uint32_t> graphs(options.iteration, 0);
  const Result<std::vector<sim::IterationResult>> ran = replay.run(graphs, 1);
  if (!ran) {
    return tl::unexpected<Error>(ran.error());
  }
  TimeNs ideal_ns = 0;
  for (const Kernel& kernel : trace->kernels) {
    ideal_ns += kernel.duration_ns;
  }
  const TimeNs from_ns = ran->size() > 1 ? (*ran)[ran->size() - 2].ended_ns : 0;
  print(samples, from_ns, ran->back().ended_ns, ideal_ns);
  return {};
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("One simulated iteration, launch by launch.", "step_timeline_bench");
  app.add_option("trace", options.trace, "A trace file; a transformer that is made up without");
  app.add_option("--policy", options.policy)->capture_default_str();
  app.add_option("--machine", options.machine)->capture_default_str();
  app.add_option("--set", options.settings, "KEY=VALUE of the machine");
  app.add_option("--iteration", options.iteration, "Which one is printed")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--queue-depth", options.queue_depth)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (const Status status = run(options); !status) {
    fmt::print(stderr, "step_timeline_bench: {}\n", status.error().message);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) { return spillway::bench::guarded(spillway::main_of, argc, argv); }
