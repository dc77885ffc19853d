// See run_child.h.
#include "front/run_child.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/child_process.h"
#include "front/run_live.h"
#include "platform/common/say.h"

namespace spillway {

namespace fs = std::filesystem;

RecordFolder::RecordFolder() {
  std::error_code error;
  std::string name = fs::temp_directory_path(error) / "spillway-run-XXXXXX";
  if (!error && ::mkdtemp(name.data()) != nullptr) {
    path_ = name;
  }
}

RecordFolder::~RecordFolder() {
  std::error_code error;
  if (!path_.empty()) {
    fs::remove_all(path_, error);
  }
}

Status RecordFolder::made() const {
  if (!path_.empty()) {
    return {};
  }
  return make_error(ErrorCode::kIo,
                    "cannot make a folder for the record of the run; TMPDIR, or else /tmp, must "
                    "be a folder that this user may write");
}

namespace {

// What ends this process ends the program, and then we say what happened and leave nothing behind.
volatile std::sig_atomic_t ended_by = 0;
std::atomic<pid_t> running{0};

void pass_on(int signal) {
  ended_by = signal;
  if (const pid_t child = running; child > 0) {
    ::kill(child, signal);
  }
}

}  // namespace

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

namespace {

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

}  // namespace

Result<ProgramEnd> run_program(const ProgramToRun& program) {
  // A Ctrl-C is the program's: it ends, and then we say what happened.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGQUIT, SIG_IGN);
  const Result<pid_t> child =
      start_child({.words = program.command, .environment = program.environment});
  if (!child) {
    constexpr int kNotFound = 127;  // as a shell says it
    constexpr int kCannotRun = 126;
    say(child.error().message);
    return ProgramEnd{
        .status = child.error().code == ErrorCode::kUnsupported ? kNotFound : kCannotRun,
        .started = false};
  }
  runs(*child);
  const Result<ChildEnd> end = wait_for(*child, RunLive(program.records));
  if (!end) {
    return tl::unexpected<Error>(end.error());
  }
  if (end->signal != 0) {
    say(fmt::format("the program was ended by signal {} ({})", end->signal,
                    ::strsignal(end->signal)));
  }
  return ProgramEnd{.status = end->status, .started = true};
}

}  // namespace spillway
