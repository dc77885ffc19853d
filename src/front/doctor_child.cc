// See doctor_child.h.
#include "front/doctor_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "platform/host/userfault.h"

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  Descriptor read;
  Descriptor write;

  bool open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      return false;
    }
    read = Descriptor(ends[0]);
    write = Descriptor(ends[1]);
    return true;
  }
};

// 0, or an error number. The child leads a group of its own, so that all of it can be killed.
int start(std::vector<std::string>& words, const Pipe& out, const Pipe& err, pid_t& child) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write.get(), STDERR_FILENO);
  const int error =
      ::posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

// Until both ends are closed; false if the time is over before.
bool read_all(const Pipe& out, const Pipe& err, Clock::time_point until, ChildOutcome& outcome) {
  std::array<pollfd, 2> ends{{{.fd = out.read.get(), .events = POLLIN, .revents = 0},
                              {.fd = err.read.get(), .events = POLLIN, .revents = 0}}};
  const std::array texts{&outcome.out, &outcome.err};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) {
      return false;
    }
    ::poll(ends.data(), ends.size(), static_cast<int>(left.count()));
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) {
        continue;
      }
      std::array<char, 4096> piece{};
      const ssize_t got = ::read(ends[i].fd, piece.data(), piece.size());
      if (got > 0) {
        texts[i]->append(piece.data(), static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        ends[i].fd = -1;  // poll passes over it
      }
    }
  }
  return true;
}

}  // namespace

Result<ChildOutcome> run_child(std::vector<std::string> words, std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  const std::string name = words.front();
  Pipe out;
  Pipe err;
  if (!out.open() || !err.open()) {
    return make_error(ErrorCode::kIo, "cannot ask {}: {}", name, std::strerror(errno));
  }
  pid_t child = 0;
  if (const int error = start(words, out, err, child); error != 0) {
    return make_error(error == ENOENT ? ErrorCode::kUnsupported : ErrorCode::kIo,
                      "cannot run {}: {}", name, std::strerror(error));
  }
  out.write = Descriptor();
  err.write = Descriptor();
  ChildOutcome outcome;
  const bool in_time = read_all(out, err, until, outcome);
  if (!in_time) {
    ::kill(-child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    return make_error(ErrorCode::kIo, "{} did not answer within {} s", name,
                      std::chrono::duration_cast<std::chrono::seconds>(time).count());
  }
  outcome.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome;
}

}  // namespace spillway
