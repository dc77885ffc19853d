// Recording and reading for `spillway estimate`. See estimate_source.h.
#include "cli/estimate/estimate_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <utility>

#include "cli/run/run_child.h"
#include "cli/trace/record_without_gpu.h"
#include "cli/trace/trace_output.h"
#include "platform/common/process/say.h"
#include "runtime/estimate.h"
#include "trace/read.h"

namespace spillway {
namespace {

// What run_program does to signals, undone: Ctrl-C ends the simulations.
class KeptSignals {
 public:
  KeptSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals.at(i), nullptr, &before_.at(i));
    }
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;
  ~KeptSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals.at(i), &before_.at(i), nullptr);
    }
  }

 private:
  static constexpr std::array kSignals{SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

std::string without_punctuation(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

// Whether a trace of this device has the machine's times: "NVIDIA H100 80GB HBM3" h100-80gb's. Of a
// device that is not known nothing speaks against it.
bool measured_on(const Trace& trace, const Machine& machine) {
  const std::string gpu = without_punctuation(machine.name.substr(0, machine.name.find('-')));
  return without_punctuation(trace.device).find(gpu) != std::string::npos || trace.device.empty();
}

Result<EstimateSource> read_source(const EstimatedProgram& program,
                                   const std::vector<Machine>& machines) {
  Result<Trace> trace = read_trace(program.command.front());
  if (!trace) {
    return tl::unexpected<Error>(trace.error());
  }
  EstimateSource source;
  source.what = program.command.front();
  for (const Machine& machine : machines) {
    source.of_machine.push_back(measured_on(*trace, machine) ? std::optional<std::size_t>(0)
                                                             : std::nullopt);
  }
  source.times = trace->device.empty() ? "of an unknown device" : "of " + trace->device;
  source.sure.push_back(
      trace->device.empty()
          ? "The trace does not say of which device its times are; they are taken for each machine."
          : fmt::format("Times of kernels are the trace's, which are of {}.", trace->device));
  source.traces.push_back(std::move(*trace));
  return source;
}

std::vector<std::string> with_batch(std::vector<std::string> command, std::uint64_t batch) {
  for (std::string& word : command) {
    for (std::size_t at = word.find(kBatchWord); at != std::string::npos;
         at = word.find(kBatchWord)) {
      word.replace(at, kBatchWord.size(), std::to_string(batch));
    }
  }
  return command;
}

Result<WithoutGpuEnd> record_for_estimate(const EstimatedProgram& program,
                                          std::vector<std::string> command,
                                          const std::vector<Machine>& machines) {
  const WithoutGpu what{.command = std::move(command),
                        .machine = machines.front(),
                        .others = {machines.begin() + 1, machines.end()},
                        .warm_up = program.warm_up,
                        .keeps_output = true};
  if (const Status possible = check_without_gpu(what); !possible) {
    return tl::unexpected<Error>(possible.error());
  }
  say(fmt::format("records a training step of `{}` as {} would run it",
                  fmt::join(what.command, " "), what.machine.name));
  const KeptSignals signals;
  pass_on_signals();
  Result<WithoutGpuEnd> end = record_without_gpu(what);
  if (end && end->status != 0) {
    say("nothing is estimated: the program ended before a step of it was recorded");
  }
  return end;
}

Result<int> record_growth(const EstimatedProgram& program, const std::vector<Machine>& machines,
                          EstimateSource& source) {
  const std::uint64_t small = program.batches.front();
  const std::uint64_t large = program.batches.back();
  Result<WithoutGpuEnd> end =
      record_for_estimate(program, with_batch(program.command, large), machines);
  if (!end) {
    return tl::unexpected<Error>(end.error());
  }
  if (end->status != 0) {
    return end->status;
  }
  Result<BatchMemory> growth = growth_between({source.traces.front(), small}, {end->trace, large});
  if (growth) {
    source.growth = std::move(*growth);
    source.batch = small;
    source.larger_batch = large;
    source.larger = std::move(end->others);
    source.larger.insert(source.larger.begin(), std::move(end->trace));
    source.sure.push_back(fmt::format(
        "The largest batch is by the steps with {} and {}: each kernel's memory as a line over the "
        "batch, with the kernels and workspaces of these two.",
        small, large));
  } else {
    source.sure.push_back(
        fmt::format("The largest batch is not known: {}.", growth.error().message));
  }
  return 0;
}

void say_of_recording(const std::vector<Machine>& machines, EstimateSource& source) {
  source.times = "estimated";
  source.sure.emplace_back(
      "Times of kernels are estimated from what vendors say of the GPUs. Of ten recorded steps of "
      "an H200 the estimate was 0.64 to 1.18 of the time, and within 0.4 % of the peak; other GPUs "
      "were not compared.");
  const auto other = std::find_if(machines.begin(), machines.end(), [&](const Machine& machine) {
    return machine.device.compute_capability != machines.front().device.compute_capability;
  });
  if (other != machines.end()) {
    source.sure.push_back(fmt::format(
        "Which kernels there are, and their workspaces, is as on {}; a GPU of another compute "
        "capability, such as {}, may choose other kernels for attention and matrix products.",
        machines.front().name, other->name));
  }
}

// The first batch with every machine's times, and of the second how memory grows.
Result<int> record_source(const EstimatedProgram& program, const std::vector<Machine>& machines,
                          EstimateSource& source) {
  const bool grows = !program.batches.empty();
  const std::vector<std::string> command =
      grows ? with_batch(program.command, program.batches.front()) : program.command;
  Result<WithoutGpuEnd> end = record_for_estimate(program, command, machines);
  if (!end) {
    return tl::unexpected<Error>(end.error());
  }
  if (end->status != 0) {
    return end->status;
  }
  source.what = fmt::format("{}", fmt::join(command, " "));
  say_of_recording(machines, source);
  source.traces = std::move(end->others);
  source.traces.insert(source.traces.begin(), std::move(end->trace));
  for (std::size_t i = 0; i < machines.size(); ++i) {
    source.of_machine.emplace_back(i);
  }
  return grows ? record_growth(program, machines, source) : 0;
}

bool is_trace(const EstimatedProgram& program) {
  return program.command.size() == 1 && check_trace_name(program.command.front());
}

}  // namespace

Result<EstimateSource> estimate_source(const EstimatedProgram& program,
                                       const std::vector<Machine>& machines) {
  if (is_trace(program)) {
    return read_source(program, machines);
  }
  EstimateSource source;
  const Result<int> status = record_source(program, machines, source);
  if (!status) {
    return tl::unexpected<Error>(status.error());
  }
  source.status = *status;
  return source;
}

}  // namespace spillway
