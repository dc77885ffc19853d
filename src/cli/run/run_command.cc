// Starts the program with the preloaded library, waits for it, and says what happened.
// See run_command.h.
#include "cli/run/run_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/live/run_metrics.h"
#include "cli/output_file.h"
#include "cli/run/decided_run.h"
#include "cli/run/run_child.h"
#include "cli/run/run_environment.h"
#include "cli/run/run_options.h"
#include "cli/run/run_program.h"
#include "cli/run/run_start.h"
#include "platform/common/process/say.h"
#include "plot/gnuplot_process.h"
#include "runtime/cuda/launch_queue.h"
#include "runtime/record/run_records.h"
#include "runtime/report/run_report.h"
#include "runtime/report/run_text.h"
#include "runtime/report/trace_events.h"

namespace spillway {
namespace {

// A record a line.
std::string lines_of(const std::vector<RunRecord>& records) {
  std::string lines;
  for (const RunRecord& record : records) {
    lines += to_json(record) + "\n";
  }
  return lines;
}

Status write_timeline(const std::string& path, const std::string& folder) {
  const std::vector<ProcessEvents> processes = read_process_events(folder);
  std::uint64_t dropped = 0;
  for (const ProcessEvents& process : processes) {
    dropped += process.events.dropped();
  }
  if (dropped > 0) {
    say(fmt::format("{}: {} events came after {} of their kind and are left out", path, dropped,
                    EventLog::kMost));
  }
  return write_output(path, timeline_json(processes));
}

// Why the budgets had no effect; empty where they had one, or it has been said before the program
// began.
std::string why_no_effect(const RunRecords& records, const RunOptions& options, bool gpu) {
  const bool used = std::any_of(records.all.begin(), records.all.end(), [](const RunRecord& it) {
    return it.memory.peak_bytes > 0 || it.device.past_budget_peak_bytes > 0;
  });
  if (used || !records.unreadable.empty() || !why_not_preloaded(options.command.front()).empty()) {
    return {};
  }
  return gpu ? "the device budget had no effect: the program used no device memory, or by means "
               "that Spillway does not see, or was killed"
             : "no large allocation was made, or the program was killed, or it allocates by means "
               "that Spillway does not see: there is nothing to report";
}

// What happened: to the files that options name, or else to a person. What is wrong with one of
// them does not keep the other back.
Status tell(const RunRecords& records, const std::string& folder, const RunOptions& options) {
  for (const std::string& name : records.unreadable) {
    say(fmt::format("the record {} cannot be read: was its process ended while it wrote?", name));
  }
  const bool several = records.all.size() > 1;
  if (several && options.json.empty()) {
    say(fmt::format("{} processes have used it, each with a budget of its own",
                    records.all.size()));
  }
  Status json;
  if (!options.json.empty()) {
    json = write_output(options.json, lines_of(records.all));
  } else {
    for (const RunRecord& record : records.all) {
      const std::string whose = several ? fmt::format("process {}: ", record.pid) : "";
      std::fputs(summary_text(record, whose).c_str(), stderr);
    }
  }
  Status report;
  if (!options.report.empty()) {
    report =
        run_report(records)
            .map_error([&](const Error& error) {
              return Error{error.code, fmt::format("{}: {}", options.report, error.message)};
            })
            .and_then([&](const std::string& page) { return write_output(options.report, page); });
  }
  Status timeline;
  if (!options.trace_events.empty()) {
    timeline = write_timeline(options.trace_events, folder);
  }
  return !json ? json : !report ? report : timeline;
}

Status check_outputs(const RunOptions& options) {
  for (const std::string& file : {options.json, options.report, options.trace_events}) {
    if (Status possible = file.empty() ? Status() : check_output(file); !possible) {
      return possible;
    }
  }
  return {};
}

// Nothing is started, and nothing but a refusal is said.
Result<int> try_to_run(const RunOptions& options) {
  if (const Status possible = check_outputs(options); !possible) {
    return tl::unexpected<Error>(possible.error());
  }
  return decide_run(options)
      .and_then([](const DecidedRun& decided) { return run_environment(decided, ""); })
      .map([](const Environment&) { return 0; });
}

Result<int> run(const RunOptions& options) {
  if (const Status possible = check_outputs(options); !possible) {
    return tl::unexpected<Error>(possible.error());
  }
  pass_on_signals();
  const RecordFolder records;
  if (const Status made = records.made(); !made) {
    return tl::unexpected<Error>(made.error());
  }
  if (!options.report.empty()) {
    if (const auto drawn = plot::run_gnuplot(""); !drawn) {
      say("the report will have no charts: " + drawn.error().message);
    }
  }
  const Result<DecidedRun> decided = decide_run(options);
  if (!decided) {
    return tl::unexpected<Error>(decided.error());
  }
  Result<Environment> environment = run_environment(*decided, records.path());
  if (!environment) {
    return tl::unexpected<Error>(environment.error());
  }
  tell_decided(*decided);
  const RunStart start = run_start(*decided);
  say(start.line);
  if (!options.trace_events.empty()) {
    environment->emplace_back("SPILLWAY_TRACE_EVENTS", "1");
  }
  // The summary alone shows three of the names: not worth what they cost. Who measures may say 0.
  if (std::getenv("SPILLWAY_MODULE_NAMES") == nullptr &&
      (!options.json.empty() || !options.report.empty() || !options.trace_events.empty())) {
    environment->emplace_back("SPILLWAY_MODULE_NAMES", "1");
  }
  environment->emplace_back(kNearOptimizerVariable, decided->near_optimizer.on ? "on" : "off");
  // Updates begin beside the backward pass if step() is called long before the device is there.
  if (decided->near_optimizer.on && decided->gpu && std::getenv(kQueueScaleVariable) == nullptr) {
    environment->emplace_back(kQueueScaleVariable, kLongestQueues);
  }
  Result<std::unique_ptr<RunMetrics>> metrics = RunMetrics::begin(options.metrics, records.path());
  if (!metrics) {
    return tl::unexpected<Error>(metrics.error());
  }
  Result<ProgramEnd> end = run_program({.command = options.command,
                                        .environment = std::move(*environment),
                                        .records = records.path()});
  metrics->reset();
  if (!end) {
    return tl::unexpected<Error>(end.error());
  }
  if (!end->started) {
    return end->status;
  }
  RunRecords made = read_run_records(records.path());
  for (RunRecord& record : made.all) {
    record.start = start;
  }
  const std::string no_effect = why_no_effect(made, options, decided->gpu.has_value());
  if (!no_effect.empty()) {
    say(no_effect);
  }
  const Status told = tell(made, records.path(), options);
  if (!told) {
    if (end->status == 0) {
      return tl::unexpected<Error>(told.error());
    }
    say(told.error().message);  // the program's own status says more
    return end->status;
  }
  return end->status == 0 && options.strict && !no_effect.empty() ? kOwnFailureStatus : end->status;
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* const command = app.add_subcommand(
      "run",
      "Run a program with a memory budget\n\n"
      "Up to --device-memory of the program's data is in the memory of the device, a GPU or\n"
      "this machine itself. The rest is in host memory or in a swap file. Spillway moves data\n"
      "to the device before it is needed. The program needs no change. The first line says\n"
      "what took effect, the last lines what the run cost.\n\n"
      "  spillway run --device-memory 4GiB -- python train.py\n"
      "  spillway run --device-memory 2GiB --storage /var/tmp:20GiB --report run.html -- ./app\n");
  add_run_options(command, options.get());
  add_program(*command, *options);
  command->footer(policy_footer());
  command->callback([options, command, &exit_code] {
    const Status valid = has_values(*command);
    exit_code = exit_status(valid ? run(*options) : tl::unexpected<Error>(valid.error()));
  });
}

void add_can_run_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* const command =
      app.add_subcommand("can-run", "Say what `run` with these options would refuse");
  command->group("");
  add_run_options(command, options.get());
  add_program(*command, *options);
  command->callback([options, command, &exit_code] {
    const Status valid = has_values(*command);
    exit_code = exit_status(valid ? try_to_run(*options) : tl::unexpected<Error>(valid.error()));
  });
}

void add_run_options(CLI::App* command, RunOptions* options) {
  add_space_options(*command, *options);
  command
      ->add_option(
          "--near-optimizer", options->near_optimizer,
          "Whether Spillway takes the steps of PyTorch's optimizers, with the same results: on, "
          "the processor updates what is in host memory there, so that it need not move to the "
          "GPU; off, PyTorch takes them; auto, on if a GPU's link is no faster than PCIe 4 x16 "
          "(auto)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->group("What runs where");
  constexpr const char* kResults = "What it tells";
  command
      ->add_option("--report", options->report,
                   "Write a report of the run to this file, one HTML page")
      ->type_name("FILE")
      ->group(kResults);
  command
      ->add_option("--trace-events", options->trace_events,
                   "Write a timeline to this file, which https://ui.perfetto.dev and "
                   "chrome://tracing open: launches, transfers, and who waited for what")
      ->type_name("FILE")
      ->group(kResults);
  command
      ->add_option("--json", options->json,
                   "Write the record of the run to this file instead of a summary to standard "
                   "error: one line of JSON for each process; - for standard output")
      ->type_name("FILE")
      ->group(kResults);
  command
      ->add_flag("--strict", options->strict,
                 "End the run, with one line, if a budget, an option or a variable has no effect: "
                 "with status 2 before the program starts, with 125 once it runs")
      ->group(kResults);
  command
      ->add_option("--metrics", options->metrics,
                   "Give the run's counters to Prometheus: write them to this file once a second, "
                   "for the node exporter; or answer at a local port, e.g. 127.0.0.1:9400")
      ->type_name("FILE|PORT")
      ->group(kResults);
}

}  // namespace spillway
