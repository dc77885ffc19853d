// Options to jobs, jobs to a report. See simulate_command.h.
#include "cli/simulate/simulate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/complain.h"
#include "cli/policy_list.h"
#include "cli/progress.h"
#include "cli/simulate/simulate_report.h"
#include "machine/load.h"
#include "policy/registry.h"
#include "runtime/batch.h"

namespace spillway {
namespace {

struct SimulateOptions {
  std::vector<std::string> traces;
  std::string machine = "a100-40gb";
  std::vector<std::string> settings;
  std::vector<std::string> policies = {"g10"};
  SimulationOptions simulation;
  std::size_t jobs = std::max(1U, std::thread::hardware_concurrency());
  std::string perturbation = "none";
  std::string near_optimizer = "off";
  bool json = false;
};

// In the order in which they were asked for, each once.
Result<std::vector<const PolicyInfo*>> chosen_policies(const std::vector<std::string>& names) {
  std::vector<const PolicyInfo*> policies;
  const auto add = [&](const PolicyInfo* policy) {
    if (std::find(policies.begin(), policies.end(), policy) == policies.end()) {
      policies.push_back(policy);
    }
  };
  for (const std::string& name : names) {
    if (name == "all") {
      for (const PolicyInfo& policy : all_policies()) {
        add(&policy);
      }
      continue;
    }
    const Result<const PolicyInfo*> policy = find_policy(name);
    if (!policy) {
      return make_error(policy.error().code, "--policy: {}, all", policy.error().message);
    }
    add(*policy);
  }
  return policies;
}

Result<std::vector<BatchJob>> jobs_of(const SimulateOptions& options) {
  const Result<Machine> machine = configured_machine(options.machine, options.settings);
  if (!machine) {
    return tl::unexpected<Error>(machine.error());
  }
  const Result<std::vector<const PolicyInfo*>> policies = chosen_policies(options.policies);
  if (!policies) {
    return tl::unexpected<Error>(policies.error());
  }
  const Result<Perturbation> perturbation = parse_perturbation(options.perturbation);
  if (!perturbation) {
    return make_error(perturbation.error().code, "--perturb: {}", perturbation.error().message);
  }
  SimulationOptions simulation = options.simulation;
  simulation.perturbation = *perturbation;
  simulation.perturbation_seed = simulation.policy.profiling_seed;
  simulation.near_optimizer = options.near_optimizer == "on"     ? sim::NearOptimizer::kOn
                              : options.near_optimizer == "auto" ? sim::NearOptimizer::kAuto
                                                                 : sim::NearOptimizer::kOff;
  std::vector<BatchJob> jobs;
  for (std::size_t trace = 0; trace < options.traces.size(); ++trace) {
    for (const PolicyInfo* policy : *policies) {
      jobs.push_back({trace, *machine, policy, simulation});
    }
  }
  return jobs;
}

std::vector<BatchOutcome> run_with_progress(const SimulateOptions& options,
                                            const std::vector<BatchJob>& jobs) {
  const std::vector<std::filesystem::path> files(options.traces.begin(), options.traces.end());
  Progress progress(jobs.size());
  return run_batch(files, jobs, options.jobs, [&](std::size_t done) { progress.set_done(done); });
}

// Of several complaints, the one that a person can correct decides.
int run(const SimulateOptions& options) {
  const Result<std::vector<BatchJob>> jobs = jobs_of(options);
  if (!jobs) {
    return complain(jobs.error());
  }
  const std::vector<BatchOutcome> outcomes = run_with_progress(options, *jobs);

  int exit_code = 0;
  bool any_ran = false;
  std::vector<SimulationReport> reports;
  std::optional<std::size_t> unreadable;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const BatchJob& job = (*jobs)[i];
    const BatchOutcome& outcome = outcomes[i];
    const std::string& file = options.traces[job.trace];
    if (!outcome.trace) {
      if (unreadable != job.trace) {  // once for all its policies
        exit_code = std::max(exit_code, complain(outcome.trace.error()));
      }
      unreadable = job.trace;
    } else if (!outcome.result && outcome.result.error().code != ErrorCode::kCannotRun) {
      exit_code = std::max(exit_code,
                           complain({outcome.result.error().code,
                                     fmt::format("{}: {}", file, outcome.result.error().message)}));
    } else {
      any_ran = any_ran || outcome.result.has_value();
      reports.push_back({file, &job, &outcome});
    }
  }
  if (options.json) {
    for (const SimulationReport& report : reports) {
      fmt::print("{}\n", simulation_json(report));
    }
  } else {
    fmt::print("{}", simulation_tables(reports));
  }
  return exit_code == 0 && !any_ran ? 1 : exit_code;
}

std::string help_below() {
  return policy_list() +
         "\nExamples:\n"
         "  spillway simulate bert-256.json.gz\n"
         "  spillway simulate --policy all --set host.capacity=64GiB step.swt\n"
         "  spillway simulate --policy lookahead,g10 --queue-depth 1024 step.swt\n"
         "  spillway simulate --machine h200 --policy g10,deepum_plus --json *.swt";
}

void add_what(CLI::App& simulate, SimulateOptions& options) {
  simulate.add_option("trace", options.traces, "Trace files")->required()->type_name("TRACE");
  simulate.add_option("--machine", options.machine, "A built-in machine, or a .toml file")
      ->type_name("M")
      ->capture_default_str();
  simulate.add_option("--set", options.settings, "Set a field of the machine")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  simulate.add_option("--policy", options.policies, "One or more policies, or all")
      ->type_name("P[,P...]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
}

void add_how(CLI::App& simulate, SimulateOptions& options) {
  simulate
      .add_option("--warm-up", options.simulation.warm_up_iterations,
                  "Iterations that are simulated first and not measured")
      ->type_name("N")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  simulate
      .add_option("--iterations", options.simulation.iterations, "Iterations that are measured")
      ->type_name("N")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  simulate
      .add_option(
          "--queue-depth", options.simulation.queue_depth,
          "How many launches the program may issue ahead of the device; 0: it waits for each")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  simulate.add_flag(
      "--as-run", options.simulation.as_run,
      "Give every policy what `spillway run` gives it, beyond its paper: it knows which "
      "data is dead, space is taken from dead data first, and data that has an equal "
      "copy in host memory is evicted without a transfer");
  simulate
      .add_option("--near-optimizer", options.near_optimizer,
                  "Where the optimizer's updates run: off, on the device, as recorded; on, on the "
                  "processor, where their states are in host memory; auto, where each ends first")
      ->type_name("WHERE")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  simulate
      .add_option("--perturb", options.perturbation,
                  "Let iterations differ from the trace: none, shapes, evaluation, alternating")
      ->type_name("KIND")
      ->capture_default_str();
  simulate
      .add_option("--profiling-error", options.simulation.policy.profiling_error,
                  "Plans are made from kernel times that are wrong by up to this fraction")
      ->type_name("X")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  simulate
      .add_option("--seed", options.simulation.policy.profiling_seed,
                  "Seed of the random choices of --profiling-error and --perturb")
      ->type_name("S")
      ->capture_default_str();
}

void add_output(CLI::App& simulate, SimulateOptions& options) {
  simulate.add_option("--jobs", options.jobs, "How many simulations run at a time")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->default_str("one a core");
  simulate.add_flag("--json", options.json, "Print one JSON object a line");
}

}  // namespace

void add_simulate_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* simulate = app.add_subcommand(
      "simulate", "Simulate how long an iteration of a trace takes on a machine under a policy");
  simulate->footer(help_below());
  add_what(*simulate, *options);
  add_how(*simulate, *options);
  add_output(*simulate, *options);
  simulate->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace spillway
