// Runs a program as `spillway run` does, and makes a trace of what it leaves. See record_command.h.
#include "cli/trace/record_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "analysis/memory_curve.h"
#include "analysis/vitality.h"
#include "cli/output_file.h"
#include "cli/run/decided_run.h"
#include "cli/run/run_child.h"
#include "cli/run/run_options.h"
#include "cli/run/run_program.h"
#include "cli/run/run_start.h"
#include "cli/trace/record_without_gpu.h"
#include "cli/trace/trace_info.h"
#include "cli/trace/trace_output.h"
#include "machine/load.h"
#include "platform/common/process/say.h"
#include "runtime/record/iteration_capture.h"

namespace spillway {
namespace {

struct RecordOptions {
  RunOptions run;
  std::string output;
  std::string model;
  unsigned warm_up = 2;
  bool without_gpu = false;
  std::string machine = "h200";
  std::vector<std::string> settings;
};

Status check(const RecordOptions& options) {
  if (Status possible = check_trace_name(options.output); !possible) {
    return possible;
  }
  for (const std::string& file : {options.output, options.run.json}) {
    if (Status possible = file.empty() ? Status() : check_output(file); !possible) {
      return possible;
    }
  }
  return {};
}

// What the launches use, each time: where several processes have left something, the one that works
// most.
Bytes used_bytes(const CapturedIteration& captured) {
  Bytes bytes = 0;
  if (captured.used) {
    for (const Kernel& kernel : captured.used->kernels) {
      for (const auto* const ids : {&kernel.reads, &kernel.writes}) {
        for (const TensorId id : *ids) {
          bytes += captured.used->tensors[id].bytes;
        }
      }
    }
  }
  return bytes;
}

// Why there is no trace, of the process that came furthest.
Error why_none(const std::vector<CapturedIteration>& all, const RecordOptions& options) {
  const auto error = [](std::string text) {
    return Error{ErrorCode::kCannotRun, "nothing is recorded: " + std::move(text)};
  };
  const auto furthest = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(a.iterations, a.launches) < std::pair(b.iterations, b.launches);
  });
  if (furthest == all.end()) {
    const std::string why = why_not_preloaded(options.run.command.front());
    return error(why.empty() ? "the program made no large allocation, or was killed" : why);
  }
  if (furthest->launches == 0) {
    return error(
        "the program launched nothing that Spillway sees: operators of PyTorch, launches of the C "
        "API, or on a GPU kernels");
  }
  if (furthest->timed && furthest->iterations > options.warm_up + 2) {
    return error(fmt::format(
        "after {} iterations the program ended before one in which it says what its launches use; "
        "let it run longer, and where it uses PyTorch, through modules",
        furthest->iterations));
  }
  return error(fmt::format(
      "in {} launches {} iterations ended, and {} are needed with --warm-up {}; let the program "
      "run longer",
      furthest->launches, furthest->iterations, options.warm_up + 2, options.warm_up));
}

// A name for the model, if nobody gave one: the script's, or the program's.
std::string name_of(const std::vector<std::string>& command) {
  const auto script = std::find_if(command.begin(), command.end(),
                                   [](const std::string& word) { return word.ends_with(".py"); });
  return std::filesystem::path(script == command.end() ? command.front() : *script).stem().string();
}

Result<Trace> recorded(const std::string& folder, const RecordOptions& options) {
  const std::vector<CapturedIteration> all = read_captured_iterations(folder);
  const auto largest = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return used_bytes(a) < used_bytes(b);
  });
  if (largest == all.end() || used_bytes(*largest) == 0) {
    return tl::unexpected<Error>(why_none(all, options));
  }
  if (const std::size_t launches = whole_launches(*largest); launches != largest->times.size()) {
    say(fmt::format(
        "{}: times of some launches may be those of others: the iteration that was timed has {} "
        "launches, and the next, whose operands were noted, {}; record again with another "
        "--warm-up "
        "than {}, so that two of the same kind follow each other",
        options.output, largest->times.size(), launches, options.warm_up));
  }
  Trace trace = trace_of(*largest);
  trace.model = options.model.empty() ? name_of(options.run.command) : options.model;
  return trace;
}

Status tell(const Trace& trace, const RecordOptions& options) {
  if (!options.run.json.empty()) {
    return write_output(options.run.json, trace_info_json(trace, options.output) + "\n");
  }
  const Bytes peak_bytes = memory_curve(trace, analyze_vitality(trace)).peak_live_bytes;
  fmt::print(stderr, "{}", trace_info_text(trace, options.output));
  fmt::print(stderr,
             "at most       {} alive at once\n"
             "Try it with half of that:\n"
             "  spillway simulate --policy all --set device.capacity={}MiB {}\n",
             format_bytes(peak_bytes), std::max<Bytes>(peak_bytes / 2 / kMiB, 1), options.output);
  return {};
}

// The files: the trace, and what it holds.
Status write(const Trace& trace, const RecordOptions& options) {
  if (Status written = write_by_name(trace, options.output); !written) {
    return written;
  }
  return tell(trace, options);
}

Result<int> record_here(const RecordOptions& options) {
  Result<Machine> machine = configured_machine(options.machine, options.settings);
  if (!machine) {
    return tl::unexpected<Error>(machine.error());
  }
  Result<WithoutGpuEnd> end = record_without_gpu(
      {.command = options.run.command, .machine = std::move(*machine), .warm_up = options.warm_up});
  if (!end) {
    return tl::unexpected<Error>(end.error());
  }
  if (end->status != 0) {
    return end->status;
  }
  end->trace.model = options.model.empty() ? name_of(options.run.command) : options.model;
  if (const Status written = write(end->trace, options); !written) {
    return tl::unexpected<Error>(written.error());
  }
  return 0;
}

Result<int> record(const RecordOptions& options) {
  if (const Status possible = check(options); !possible) {
    return tl::unexpected<Error>(possible.error());
  }
  pass_on_signals();
  if (options.without_gpu) {
    return record_here(options);
  }
  const RecordFolder records;
  if (const Status made = records.made(); !made) {
    return tl::unexpected<Error>(made.error());
  }
  const Result<DecidedRun> decided = decide_run(options.run);
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
  environment->emplace_back("SPILLWAY_CAPTURE", records.path());
  environment->emplace_back("SPILLWAY_CAPTURE_WARM_UP", std::to_string(options.warm_up));
  const Result<ProgramEnd> end = run_program({.command = options.run.command,
                                              .environment = std::move(*environment),
                                              .records = records.path()});
  if (!end) {
    return tl::unexpected<Error>(end.error());
  }
  if (!end->started) {
    return end->status;
  }
  const Result<Trace> trace = recorded(records.path(), options);
  if (!trace && end->status != 0) {
    say(trace.error().message);
    return end->status;
  }
  if (!trace) {
    return tl::unexpected<Error>(trace.error());
  }
  if (const Status written = write(*trace, options); !written) {
    return tl::unexpected<Error>(written.error());
  }
  return end->status;
}

constexpr const char* kRecordHelp =
    "Run a program and write one iteration of it as a trace\n\n"
    "The trace has the iteration's launches, how long each took, what it read and wrote, and\n"
    "when memory was allocated and freed, so that any policy and machine can be tried on it.\n"
    "The program needs no change, and computes the same.\n\n"
    "  spillway record -o step.swt -- python train.py --steps 5\n"
    "  spillway simulate --policy all --machine h200 --set device.capacity=20GiB step.swt\n\n"
    "The first two iterations pass, the third is timed, and in the fourth the operands of its\n"
    "launches are noted; so a script has to take at least four steps. An iteration ends with\n"
    "an optimizer's step; if there is none, Spillway finds what repeats. The file is written\n"
    "when the program has ended. What it does after those steps changes nothing, so it may be\n"
    "ended with Ctrl-C.\n\n"
    "With --without-gpu a training step of PyTorch is recorded on a machine that has no GPU:\n"
    "tensors on cuda have shapes and no memory, and the times are estimated. The program ends\n"
    "after the recorded step.\n\n"
    "  spillway record --without-gpu --machine rtx4090-24gb -o step.swt -- python train.py\n";

constexpr const char* kTraceGroup = "The trace";

void add_trace_options(CLI::App& command, RecordOptions& options) {
  command
      .add_option("-o,--output", options.output,
                  "The file to write: .swt, .json or .json.gz (kernel-trace/1)")
      ->required()
      ->type_name("FILE")
      ->group(kTraceGroup);
  command
      .add_option("--warm-up", options.warm_up, "Iterations that pass before the one that is timed")
      ->type_name("N")
      ->group(kTraceGroup)
      ->capture_default_str()
      ->check(CLI::Range(1U, 1'000'000U));
  command
      .add_option("--model", options.model,
                  "The name of the model, in the trace (the name of the script or program)")
      ->type_name("NAME")
      ->group(kTraceGroup);
}

void add_options_without_gpu(CLI::App& command, RecordOptions& options) {
  constexpr const char* kWithoutGpu = "Without a GPU";
  CLI::Option* const without_gpu =
      command
          .add_flag(
              "--without-gpu", options.without_gpu,
              "Record what PyTorch would do on the GPU of --machine; the options on memory have "
              "no effect")
          ->group(kWithoutGpu);
  command
      .add_option("--machine", options.machine,
                  "A machine of `spillway machine list`, or the path of a .toml file")
      ->type_name("M")
      ->group(kWithoutGpu)
      ->capture_default_str()
      ->needs(without_gpu);
  command
      .add_option("--set", options.settings,
                  "Change a field of the machine, such as device.flops_bf16=100e12")
      ->type_name("KEY=VALUE")
      ->group(kWithoutGpu)
      ->allow_extra_args(false)
      ->needs(without_gpu);
}

}  // namespace

void add_record_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RecordOptions>();
  CLI::App* const command = app.add_subcommand("record", kRecordHelp);
  add_trace_options(*command, *options);
  add_options_without_gpu(*command, *options);
  add_space_options(*command, options->run);
  command
      ->add_option("--json", options->run.json,
                   "Write what the trace holds to this file, as `spillway trace info --json` "
                   "does, instead of text to standard error; - for standard output")
      ->type_name("FILE")
      ->group(kTraceGroup);
  add_program(*command, options->run);
  command->footer(policy_footer());
  command->callback([options, command, &exit_code] {
    const Status valid = has_values(*command);
    exit_code = exit_status(valid ? record(*options) : tl::unexpected<Error>(valid.error()));
  });
}

}  // namespace spillway
