// Reads a trace, analyzes it, prints and draws. Layer: cli.
#include "cli/analyze/analyze_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/analyze/analyze_report.h"
#include "cli/complain.h"
#include "machine/load.h"
#include "machine/quantity.h"
#include "plot/svg.h"
#include "trace/read.h"

namespace spillway {
namespace {

struct AnalyzeOptions {
  std::string trace;
  std::string plot;
  std::string bandwidth = "15.754 GB/s";  // PCIe 3.0 with 16 lanes, as in G10
  std::string machine;
  std::vector<std::string> settings;
  bool json = false;
};

Result<double> positive_bandwidth(const std::string& text) {
  Result<double> bandwidth = parse_bandwidth(text);
  if (!bandwidth) {
    return make_error(ErrorCode::kInvalidInput, "--bandwidth: {}", bandwidth.error().message);
  }
  if (*bandwidth <= 0) {
    return make_error(ErrorCode::kInvalidInput, "--bandwidth: '{}' must be more than 0", text);
  }
  return bandwidth;
}

Result<Analysis> analyze(const AnalyzeOptions& options) {
  Analysis analysis;
  const Result<double> bandwidth = positive_bandwidth(options.bandwidth);
  if (!bandwidth) {
    return tl::unexpected<Error>(bandwidth.error());
  }
  analysis.bandwidth_bytes_per_s = *bandwidth;
  if (options.machine.empty() && !options.settings.empty()) {
    return make_error(ErrorCode::kInvalidInput, "--set changes a machine: name one with --machine");
  }
  Result<Trace> trace = read_trace(options.trace);
  if (!trace) {
    return tl::unexpected<Error>(trace.error());
  }
  analysis.trace = std::move(*trace);
  analysis.vitality = analyze_vitality(analysis.trace);
  analysis.curve = memory_curve(analysis.trace, analysis.vitality);
  analysis.summary =
      summarize(analysis.trace, analysis.vitality, analysis.curve, analysis.bandwidth_bytes_per_s);
  if (!options.machine.empty()) {
    Result<Machine> machine = configured_machine(options.machine, options.settings);
    if (!machine) {
      return tl::unexpected<Error>(machine.error());
    }
    const LowerBound bound = lower_bound(analysis.trace, analysis.vitality, *machine);
    analysis.machine = MachineBound{std::move(*machine), bound};
  }
  return analysis;
}

Status run(const AnalyzeOptions& options) {
  const Result<Analysis> analysis = analyze(options);
  if (!analysis) {
    return tl::unexpected<Error>(analysis.error());
  }
  fmt::print("{}", options.json ? analysis_json(*analysis) : analysis_text(*analysis));
  if (options.plot.empty()) {
    return {};
  }
  return plot::write_svg(analysis_figure(*analysis), options.plot);
}

}  // namespace

void add_analyze_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<AnalyzeOptions>();
  CLI::App* analyze = app.add_subcommand(
      "analyze",
      "Lifetimes, inactive periods and memory of a trace\n\n"
      "In an inactive period of a tensor no kernel uses it, so it could be elsewhere.\n\n"
      "  spillway analyze step.swt\n"
      "  spillway analyze --machine h200 --set device.capacity=20GiB --plot step.svg step.swt\n");
  analyze->add_option("trace", options->trace, "A trace file")->required();
  analyze->add_option("--plot", options->plot, "Draw memory and inactive periods to this SVG file")
      ->type_name("FILE.svg");
  analyze
      ->add_option("--bandwidth", options->bandwidth,
                   "How fast data leaves the device and comes back, to tell which periods are long "
                   "enough for both")
      ->type_name("RATE")
      ->capture_default_str();
  analyze
      ->add_option("--machine", options->machine,
                   "Also give lower bounds on this machine: a built-in one, or a .toml file")
      ->type_name("M");
  analyze->add_option("--set", options->settings, "Set a field of the machine")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  analyze->add_flag("--json", options->json, "Print one JSON object");
  analyze->callback([options, &exit_code] {
    const Status status = run(*options);
    exit_code = status ? 0 : complain(status.error());
  });
}

}  // namespace spillway
