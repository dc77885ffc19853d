// Starts the program with the preloaded library, waits for it, and says what happened.
// See run_command.h.
#include "front/run_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "front/complain.h"
#include "front/policy_list.h"
#include "front/run_live.h"
#include "front/run_summary.h"
#include "platform/host/userfault.h"
#include "runtime/host/host_space.h"
#include "runtime/host/run_report.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

struct RunOptions {
  std::string device_memory;
  std::string host_memory;
  std::string storage;
  std::string policy = "deepum";
  std::string report;
  std::string link_bandwidth;
  std::string fault_latency;
  std::string threshold;
  std::string prefetch_degree;
  bool json = false;
  std::vector<std::string> command;
};

// Beside the program (a build folder), or where it is installed.
Result<std::string> find_beside(const std::vector<std::string>& candidates) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const std::string& candidate : candidates) {
    const fs::path path = (program.parent_path() / candidate).lexically_normal();
    if (fs::exists(path, error)) {
      return path.string();
    }
  }
  return make_error(ErrorCode::kUnsupported,
                    "{} is not installed beside {}; build or install Spillway again",
                    fs::path(candidates.front()).filename().string(), program.string());
}

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

void set(const char* name, const std::string& value) {
  if (!value.empty()) {
    ::setenv(name, value.c_str(), 1);
  }
}

// Before anything that is there: a person may preload something else as well.
void put_first(const char* name, const std::string& value) {
  const char* const before = std::getenv(name);
  set(name, before == nullptr || *before == '\0' ? value : value + ":" + before);
}

// "1 ms", "50us", "2000": nanoseconds as a plain number.
Result<std::string> nanoseconds(const std::string& text) {
  std::size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    value = -1;
  }
  std::string unit = text.substr(used);
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size()
                                                                 : unit.find_first_not_of(' '));
  const double factor = unit.empty() || unit == "ns" ? 1
                        : unit == "us"               ? 1e3
                        : unit == "ms"               ? 1e6
                        : unit == "s"                ? 1e9
                                                     : -1;
  if (value < 0 || factor < 0) {
    return make_error(ErrorCode::kInvalidInput,
                      "--fault-latency '{}' is not a time such as 50us or 1ms", text);
  }
  return std::to_string(static_cast<long long>(value * factor));
}

// What the program will find is checked here first, so that mistakes are told before it starts.
Status prepare_environment(const RunOptions& options, const RecordFolder& records) {
  const Result<std::string> library =
      find_beside({"libspillway_preload.so", "../lib/libspillway_preload.so",
                   "../lib/x86_64-linux-gnu/libspillway_preload.so"});
  if (!library) {
    return tl::unexpected<Error>(library.error());
  }
  set("SPILLWAY_DEVICE_MEMORY", options.device_memory);
  set("SPILLWAY_HOST_MEMORY", options.host_memory);
  set("SPILLWAY_STORAGE", options.storage);
  set("SPILLWAY_POLICY", options.policy);
  set("SPILLWAY_LINK_BANDWIDTH", options.link_bandwidth);
  set("SPILLWAY_THRESHOLD", options.threshold);
  set("SPILLWAY_PREFETCH_DEGREE", options.prefetch_degree);
  if (!options.fault_latency.empty()) {
    const Result<std::string> latency = nanoseconds(options.fault_latency);
    if (!latency) {
      return tl::unexpected<Error>(latency.error());
    }
    set("SPILLWAY_FAULT_LATENCY", *latency);
  }
  if (!options.threshold.empty() && !parse_bytes(options.threshold)) {
    return make_error(ErrorCode::kInvalidInput, "--threshold '{}' is not a size such as 1MiB",
                      options.threshold);
  }
  const Result<HostSpaceOptions> space_options = host_space_options_from_environment();
  if (!space_options) {
    return tl::unexpected<Error>(space_options.error());
  }
  // Opened, with everything that it needs, and closed again.
  if (const auto space = HostSpace::open(*space_options); !space) {
    return tl::unexpected<Error>(space.error());
  }
  set("SPILLWAY_RECORD", records.path());
  put_first("LD_PRELOAD", *library);
  // PyTorch's operators: it tells whom this names, for the groups that this names.
  set("INTEL_LIBITTNOTIFY64", *library);
  set("INTEL_ITTNOTIFY_GROUPS", "all");
  set("SPILLWAY_OPERATORS", "1");
  if (const Result<std::string> hook = find_beside(
          {"../python/spillway/hook", "../share/spillway/hook", "../../python/spillway/hook"})) {
    put_first("PYTHONPATH", *hook);
  }
  return {};
}

Result<int> wait_for(pid_t child, RunLive& live) {
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(child, &status, live.shown() ? WNOHANG : 0);
    if (ended == child) {
      break;
    }
    if (ended < 0 && errno != EINTR) {
      return make_error(ErrorCode::kIo, "lost the program: {}", std::strerror(errno));
    }
    if (ended == 0) {
      live.redraw();
      ::usleep(100'000);
    }
  }
  live.clear();
  if (WIFSIGNALED(status)) {
    std::fputs(fmt::format("spillway: the program was ended by signal {} ({})\n", WTERMSIG(status),
                           ::strsignal(WTERMSIG(status)))
                   .c_str(),
               stderr);
    return 128 + WTERMSIG(status);
  }
  return WEXITSTATUS(status);
}

Result<int> run(const RunOptions& options) {
  const RecordFolder records;
  if (records.path().empty()) {
    return make_error(ErrorCode::kIo,
                      "cannot make a folder for the record of the run; TMPDIR, or else /tmp, must "
                      "be a folder that this user may write");
  }
  if (const Status ready = prepare_environment(options, records); !ready) {
    return tl::unexpected<Error>(ready.error());
  }
  std::vector<std::string> words = options.command;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  // A Ctrl-C is the program's: it ends, and then we say what happened.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGQUIT, SIG_IGN);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGQUIT);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, arguments[0], nullptr, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    constexpr int kNotFound = 127;  // as a shell says it
    std::fputs(
        fmt::format("spillway: cannot run '{}': {}\n", words[0], std::strerror(error)).c_str(),
        stderr);
    return kNotFound;
  }
  RunLive live(records.path());
  Result<int> status = wait_for(child, live);
  if (!status) {
    return status;
  }
  if (const Status told = summarize_run(records.path(), options.json); !told) {
    return tl::unexpected<Error>(told.error());
  }
  if (!options.report.empty()) {
    if (const Status written = write_run_report(records.path(), options.report); !written) {
      return tl::unexpected<Error>(written.error());
    }
  }
  return status;
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
  command->add_option("--device-memory", options->device_memory,
                      "Fast memory that the program may use (three quarters of what is available)");
  command->add_option("--host-memory", options->host_memory,
                      "Memory for what is moved out of it (half of what is available)");
  command->add_option("--storage", options->storage,
                      "PATH[:SIZE] of a folder, a new file or a block device to swap to (none)");
  command->add_option("--policy", options->policy, "Who decides what moves when; see below")
      ->capture_default_str();
  command->add_option("--report", options->report, "Write a report of the run, one HTML page");
  command->add_option("--link-bandwidth", options->link_bandwidth,
                      "Bytes a second between fast and host memory, each way: lets this machine\n"
                      "stand in for one with a device behind a link (as fast as it is)");
  command->add_option("--fault-latency", options->fault_latency,
                      "Time before a faulted block begins to move, e.g. 50us (none)");
  command->add_option("--threshold", options->threshold,
                      "Allocations from this size on are Spillway's (1MiB)");
  command->add_option("--prefetch-degree", options->prefetch_degree,
                      "DeepUM's N: for how many launches ahead to prefetch (64)");
  command->add_flag("--json", options->json, "Print the record of the run as JSON, one object");
  command->add_option("command", options->command, "The program and its arguments, after --")
      ->required();
  command->footer(
      policy_list() +
      "Those that plan (flashneuron, g10...) watch the second training step, and follow "
      "their\nplan from the third on.");
  command->positionals_at_end();
  command->callback([options, &exit_code] {
    const Result<int> status = run(*options);
    exit_code = status ? *status : complain(status.error());
  });
}

}  // namespace spillway
