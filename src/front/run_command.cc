// Starts the program with the preloaded library, waits for it, and says what happened.
// See run_command.h.
#include "front/run_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "front/complain.h"
#include "front/output_file.h"
#include "front/policy_list.h"
#include "front/run_environment.h"
#include "front/run_live.h"
#include "front/run_program.h"
#include "platform/common/say.h"
#include "plot/gnuplot_process.h"
#include "runtime/run/run_records.h"
#include "runtime/run/run_report.h"
#include "runtime/run/run_text.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// A folder of our own for what the program reports; gone at the end.
class RecordFolder {
 public:
  RecordFolder() {
    std::error_code error;
    std::string name = fs::temp_directory_path(error) / "spillway-run-XXXXXX";
    if (!error && ::mkdtemp(name.data()) != nullptr) {
      path_ = name;
    }
  }
  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;
  ~RecordFolder() {
    std::error_code error;
    if (!path_.empty()) {
      fs::remove_all(path_, error);
    }
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What ends this process ends the program, and then we say what happened and leave nothing behind.
volatile std::sig_atomic_t ended_by = 0;
std::atomic<pid_t> running{0};

void pass_on(int signal) {
  ended_by = signal;
  if (const pid_t child = running; child > 0) {
    ::kill(child, signal);
  }
}

void pass_on_signals() {
  for (const int signal : {SIGTERM, SIGHUP}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) {
      continue;  // nohup
    }
    struct sigaction action {};
    action.sa_handler = pass_on;
    ::sigaction(signal, &action, nullptr);
  }
}

void runs(pid_t child) {
  running = child;
  if (ended_by != 0) {  // before there was anybody to pass it on to
    ::kill(child, ended_by);
  }
  // Whoever reads what we say may leave first.
  ::signal(SIGPIPE, SIG_IGN);
}

Result<ChildEnd> wait_for(pid_t child, RunLive live) {
  if (!live.shown()) {
    return wait_for_child(child);
  }
  while (true) {
    const Result<std::optional<ChildEnd>> end = look_after_child(child);
    if (!end || *end) {
      live.clear();
      return end.map([](const auto& how) { return *how; });
    }
    live.redraw();
    ::usleep(100'000);
  }
}

// A record a line.
std::string lines_of(const std::vector<RunRecord>& records) {
  std::string lines;
  for (const RunRecord& record : records) {
    lines += to_json(record) + "\n";
  }
  return lines;
}

// What happened: to the files that options name, or else to a person. What is wrong with one of
// them does not keep the other back.
Status tell(const RunRecords& records, const RunOptions& options) {
  for (const std::string& name : records.unreadable) {
    say(fmt::format("the record {} cannot be read: was its process ended while it wrote?", name));
  }
  if (records.all.empty() && records.unreadable.empty()) {
    const std::string why = why_not_preloaded(options.command.front());
    say(why.empty() ? "no large allocation was made, or the program was killed, or it allocates by "
                      "means that Spillway does not see: there is nothing to report"
                    : why + ": there is nothing to report");
  }
  if (records.all.size() > 1 && options.json.empty()) {
    say(fmt::format("{} processes have used it, each with a budget of its own",
                    records.all.size()));
  }
  Status json;
  if (!options.json.empty()) {
    json = write_output(options.json, lines_of(records.all));
  } else {
    for (const RunRecord& record : records.all) {
      std::fputs(summary_text(record).c_str(), stderr);
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
  return json ? report : json;
}

Result<int> run(const RunOptions& options) {
  for (const std::string& file : {options.json, options.report}) {
    if (const Status possible = file.empty() ? Status() : check_output(file); !possible) {
      return tl::unexpected<Error>(possible.error());
    }
  }
  pass_on_signals();
  const RecordFolder records;
  if (records.path().empty()) {
    return make_error(ErrorCode::kIo,
                      "cannot make a folder for the record of the run; TMPDIR, or else /tmp, must "
                      "be a folder that this user may write");
  }
  if (!options.report.empty()) {
    if (const auto drawn = plot::run_gnuplot(""); !drawn) {
      say("the report will have no charts: " + drawn.error().message);
    }
  }
  Result<Environment> environment = run_environment(options, records.path());
  if (!environment) {
    return tl::unexpected<Error>(environment.error());
  }
  // A Ctrl-C is the program's: it ends, and then we say what happened.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGQUIT, SIG_IGN);
  const Result<pid_t> child =
      start_child({.words = options.command, .environment = std::move(*environment)});
  if (!child) {
    constexpr int kNotFound = 127;  // as a shell says it
    constexpr int kCannotRun = 126;
    say(child.error().message);
    return child.error().code == ErrorCode::kUnsupported ? kNotFound : kCannotRun;
  }
  runs(*child);
  const Result<ChildEnd> end = wait_for(*child, RunLive(records.path()));
  if (!end) {
    return tl::unexpected<Error>(end.error());
  }
  if (end->signal != 0) {
    say(fmt::format("the program was ended by signal {} ({})", end->signal,
                    ::strsignal(end->signal)));
  }
  const Status told = tell(read_run_records(records.path()), options);
  if (!told) {
    return tl::unexpected<Error>(told.error());
  }
  return end->status;
}

}  // namespace

namespace {

Status has_values(const CLI::App& command) {
  for (const CLI::Option* const option : command.get_options()) {
    if (option->count() > 0 && !option->get_positional() && option->results().front().empty()) {
      return make_error(ErrorCode::kInvalidInput, "{}: its value is empty", option->get_name());
    }
  }
  return {};
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* const command = app.add_subcommand(
      "run",
      "Run a program with a memory budget: its large allocations live in fast memory up to\n"
      "--device-memory, the rest in host memory and in a swap file, and Spillway moves them\n"
      "ahead of need. The program needs no change.\n\n"
      "  spillway run --device-memory 4GiB -- python train.py\n"
      "  spillway run --device-memory 2GiB --storage /var/tmp:20GiB --report run.html -- ./app\n");
  command
      ->add_option("--device", options->device,
                   "Whose memory: cuda, an NVIDIA GPU's; host, this machine's own; auto, a GPU's\n"
                   "if there is one")
      ->capture_default_str();
  command->add_option(
      "--device-memory", options->device_memory,
      "Fast memory that the program, and each process that it starts, may use (three\n"
      "quarters of what is available)");
  command->add_option("--host-memory", options->host_memory,
                      "Memory for what is moved out of it (half of what is available)");
  command->add_option("--storage", options->storage,
                      "PATH[:SIZE] of a folder, a new file or a block device to swap to (none)");
  command->add_option("--policy", options->policy, "Who decides what moves when; see below")
      ->capture_default_str();
  command->add_option("--report", options->report,
                      "Write a report of the run to this file, one HTML page");
  command->add_option("--link-bandwidth", options->link_bandwidth,
                      "Bytes a second between fast and host memory, each way: lets this machine\n"
                      "stand in for one with a device behind a link (as fast as it is)");
  command->add_option("--fault-latency", options->fault_latency,
                      "Time before a faulted block begins to move, e.g. 50us (none)");
  command->add_option("--threshold", options->threshold,
                      "Allocations from this size on are Spillway's (1MiB)");
  command->add_option("--prefetch-degree", options->prefetch_degree,
                      "DeepUM's N: for how many launches ahead to prefetch, at most (64)");
  command->add_option("--json", options->json,
                      "Write the record of the run to this file instead of a summary to standard\n"
                      "error: a JSON object a process, each on a line; - for standard output");
  command->add_option("command", options->command, "The program and its arguments, after --")
      ->required();
  command->footer(
      policy_list() +
      "Those that plan (flashneuron, g10...) watch the second training step, and follow "
      "their\nplan from the third on.");
  command->positionals_at_end();
  command->callback([options, command, &exit_code] {
    const Status valid = has_values(*command);
    const Result<int> status = valid ? run(*options) : tl::unexpected<Error>(valid.error());
    const int complained = status ? 0 : complain(status.error());
    exit_code = status ? *status : complained == 1 ? kOwnFailureStatus : complained;
  });
}

}  // namespace spillway
