// Records where there is no trace yet, simulates, prints. See estimate_command.h.
#include "cli/estimate/estimate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/estimate/estimate_report.h"
#include "cli/estimate/estimate_rows.h"
#include "cli/estimate/estimate_source.h"
#include "cli/output_file.h"
#include "cli/run/run_options.h"
#include "machine/load.h"
#include "policy/registry.h"

namespace spillway {
namespace {

struct EstimateOptions {
  EstimatedProgram program;
  std::string device_memory;
  std::string host_memory;
  std::vector<std::string> machines = {"rtx4090-24gb", "rtx5090-32gb", "a100-40gb", "h100-80gb",
                                       "h200"};
  std::vector<std::string> settings;
  std::string policy = "lookahead";
  bool json = false;
  std::string html;
};

Status check_estimate(const EstimateOptions& options) {
  if (!options.html.empty()) {
    if (Status possible = check_output(options.html); !possible) {
      return possible;
    }
  }
  if (options.program.batches.empty()) {
    return {};
  }
  if (options.program.batches.size() != 2 ||
      options.program.batches.front() == options.program.batches.back()) {
    return make_error(ErrorCode::kInvalidInput, "--batch: name two sizes, such as 8,16");
  }
  const auto has_word = [](const std::string& word) {
    return word.find(kBatchWord) != std::string::npos;
  };
  if (!std::any_of(options.program.command.begin(), options.program.command.end(), has_word)) {
    return make_error(ErrorCode::kInvalidInput,
                      "--batch: nothing of the command is {}, which it replaces, as in -- python "
                      "train.py --batch {}",
                      kBatchWord, kBatchWord);
  }
  return {};
}

Result<std::vector<Machine>> estimated_machines(const EstimateOptions& options) {
  std::vector<std::string> settings = options.settings;
  if (!options.device_memory.empty()) {
    settings.push_back("device.capacity=" + options.device_memory);
  }
  if (!options.host_memory.empty()) {
    settings.push_back("host.capacity=" + options.host_memory);
  }
  std::vector<Machine> machines;
  for (const std::string& name : options.machines) {
    Result<Machine> machine = configured_machine(name, settings);
    if (!machine) {
      return tl::unexpected<Error>(machine.error());
    }
    machines.push_back(std::move(*machine));
  }
  return machines;
}

Status print_estimate(const EstimateReport& report, const EstimateOptions& options) {
  fmt::print("{}", options.json ? estimate_json(report) : estimate_text(report));
  return options.html.empty() ? Status() : write_output(options.html, estimate_html(report));
}

// As with simulate, it is a failure only if no machine can run it.
int estimate_status(const EstimateReport& report) {
  const bool any = std::any_of(report.rows.begin(), report.rows.end(), [](const EstimateRow& row) {
    return !row.estimate || row.estimate->limited.has_value();
  });
  return any ? 0 : 1;
}

Result<int> run_estimate(const EstimateOptions& options) {
  if (const Status possible = check_estimate(options); !possible) {
    return tl::unexpected<Error>(possible.error());
  }
  const Result<std::vector<Machine>> machines = estimated_machines(options);
  if (!machines) {
    return tl::unexpected<Error>(machines.error());
  }
  const Result<const PolicyInfo*> policy = find_policy(options.policy);
  if (!policy) {
    return make_error(policy.error().code, "--policy: {}", policy.error().message);
  }
  Result<EstimateSource> source = estimate_source(options.program, *machines);
  if (!source) {
    return tl::unexpected<Error>(source.error());
  }
  if (source->status != 0) {
    return source->status;
  }
  const Result<EstimateReport> report = estimate_report(std::move(*source), *machines, **policy);
  if (!report) {
    return tl::unexpected<Error>(report.error());
  }
  if (const Status printed = print_estimate(*report, options); !printed) {
    return tl::unexpected<Error>(printed.error());
  }
  return estimate_status(*report);
}

void add_estimate_options(CLI::App& command, EstimateOptions& options) {
  constexpr const char* kMachines = "The machines";
  constexpr const char* kRecording = "The step";
  command.add_option("--machine", options.machines, "Built-in machines, or .toml files")
      ->type_name("M[,M...]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(kMachines)
      ->capture_default_str();
  command
      .add_option("--device-memory", options.device_memory,
                  "Device memory of each, instead of its own")
      ->type_name("SIZE")
      ->group(kMachines);
  command
      .add_option("--host-memory", options.host_memory,
                  "Host memory of each for what leaves the device, instead of its own")
      ->type_name("SIZE")
      ->group(kMachines);
  command
      .add_option("--set", options.settings,
                  "Set a field of each machine, e.g. link.bandwidth=13GB/s")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->group(kMachines);
  command.add_option("--policy", options.policy, "The policy, which decides what moves when")
      ->type_name("NAME")
      ->group(kMachines)
      ->capture_default_str();
  command
      .add_option("--batch", options.program.batches,
                  "Two batch sizes: the command runs with each of them in the place of {batch}. "
                  "From both, a second table estimates the largest batch that fits, that fits with "
                  "checkpointing, and up to which Spillway is faster than checkpointing. The "
                  "first table is of the first")
      ->type_name("N,N")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1U, 1U << 30U))
      ->group(kRecording);
  command
      .add_option("--warm-up", options.program.warm_up,
                  "Steps that pass before the one that is recorded")
      ->type_name("N")
      ->check(CLI::Range(1U, 1'000'000U))
      ->group(kRecording)
      ->capture_default_str();
  command.add_flag("--json", options.json, "Print a line of JSON for each machine");
  command.add_option("--html", options.html, "Also write a page with the table and a chart")
      ->type_name("FILE");
}

}  // namespace

void add_estimate_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<EstimateOptions>();
  CLI::App* const command = app.add_subcommand(
      "estimate",
      "Tell whether a training step fits other GPUs, and how fast it would be there\n\n"
      "One training step of PyTorch is recorded on this machine, which needs no GPU (as with\n"
      "`spillway record --without-gpu`), and simulated on each of the machines. The program\n"
      "ends after that step. What it prints goes to standard error.\n\n"
      "  spillway estimate -- python train.py\n"
      "  spillway estimate --machine rtx4090-24gb --batch 8,16 -- python train.py -b {batch}\n"
      "  spillway estimate --machine h200 --device-memory 20GiB step.swt\n");
  add_estimate_options(*command, *options);
  command
      ->add_option("program", options->program.command,
                   "The program and its arguments, after --; or a trace's file")
      ->type_name("");
  command->positionals_at_end();
  command->callback([options, command, &exit_code] {
    const Status valid = has_values(*command);
    exit_code = exit_status(valid ? run_estimate(*options) : tl::unexpected<Error>(valid.error()));
  });
}

}  // namespace spillway
