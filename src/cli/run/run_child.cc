// See run_child.h.
#include "cli/run/run_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/child_process.h"
#include "cli/live/run_live.h"
#include "platform/common/process/say.h"

namespace spillway {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFolderName = "spillway-run-XXXXXX";

// Of a folder that belongs to this user and to nobody that runs; otherwise none.
Descriptor lock_of(const std::string& path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  // In this order: who had it locked a moment ago may have removed it.
  const bool ours = ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 &&
                    ::fstat(folder.get(), &about) == 0 && about.st_uid == ::geteuid() &&
                    about.st_nlink > 0;
  return ours ? std::move(folder) : Descriptor();
}

void clear_up(const fs::path& temporary) {
  const std::string_view begin = kFolderName.substr(0, kFolderName.find('X'));
  std::error_code error;
  for (fs::directory_iterator at(temporary, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.starts_with(begin) && name.size() == kFolderName.size()) {
      if (const Descriptor lock = lock_of(at->path()); lock.get() >= 0) {
        std::error_code left;
        fs::remove_all(at->path(), left);
      }
    }
  }
}

}  // namespace

RecordFolder::RecordFolder() {
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  if (error) {
    return;
  }
  clear_up(temporary);
  // Another that begins now may clear up a folder that is not locked yet.
  constexpr int kTries = 16;
  for (int tries = 0; tries < kTries && lock_.get() < 0; ++tries) {
    std::string name = temporary / kFolderName;
    if (::mkdtemp(name.data()) == nullptr) {
      return;
    }
    lock_ = lock_of(name);
    path_ = lock_.get() >= 0 ? name : "";
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
  const Result<pid_t> child = start_child(
      {.words = program.command, .environment = program.environment, .out = program.out});
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
    // Nobody in the process can say so then.
    const std::string_view why =
        end->signal == SIGSYS
            ? ": a seccomp filter, perhaps its own, forbids a system call that it "
              "or one of Spillway's threads has made"
            : "";
    say(fmt::format("the program was ended by signal {} ({}){}", end->signal,
                    ::strsignal(end->signal), why));
  }
  return ProgramEnd{.status = end->status, .started = true};
}

}  // namespace spillway
