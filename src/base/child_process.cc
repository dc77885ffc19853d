// See child_process.h.
#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

namespace spillway {
namespace {

std::string describe(int error_number) { return std::generic_category().message(error_number); }

// Of strings that outlive it, as C wants them.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    all.push_back(text.data());
  }
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment_of(const ChildProgram& program) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (std::none_of(program.environment.begin(), program.environment.end(),
                     [&](const auto& own) { return own.first == name; })) {
      all.emplace_back(text);
    }
  }
  for (const auto& [name, value] : program.environment) {
    all.push_back(fmt::format("{}={}", name, value));
  }
  return all;
}

// How a child says why it could not become the program: a pipe that closes when it does.
struct Answer {
  int read = -1;
  int write = -1;
};

// Under numbers that no standard stream has, also where this process was started without those.
int above_standard_streams(int fd) {
  const int above = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::close(fd);
  return above;
}

bool open_answer(Answer& answer) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return false;
  }
  answer = {.read = above_standard_streams(ends[0]), .write = above_standard_streams(ends[1])};
  return answer.read >= 0 && answer.write >= 0;
}

void close_answer(const Answer& answer) {
  for (const int fd : {answer.read, answer.write}) {
    if (fd >= 0) {
      ::close(fd);
    }
  }
}

// Nothing of ours handles its signals, and what ends a person's wait ends it.
void reset_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction now {};
    const bool known = ::sigaction(signal, nullptr, &now) == 0;
    if (known && (signal == SIGINT || signal == SIGQUIT || now.sa_handler != SIG_IGN)) {
      ::sigaction(signal, &standard, nullptr);
    }
  }
}

// Whether the parent lives, which alone has the other end.
bool has_reader(int fd) {
  pollfd end{.fd = fd, .events = 0, .revents = 0};
  return ::poll(&end, 1, 0) >= 0 && (end.revents & POLLERR) == 0;
}

// Between fork and exec: only what may be called in a signal handler. 0, or why not.
int prepare(const ChildProgram& program, const Answer& answer, const sigset_t& mask) {
  ::close(answer.read);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
    return errno;
  }
  if (!has_reader(answer.write)) {  // it was too late for that
    ::raise(SIGKILL);
  }
  if (program.leads_group && ::setpgid(0, 0) != 0) {
    return errno;
  }
  const std::array streams{std::pair{program.in, STDIN_FILENO},
                           std::pair{program.out, STDOUT_FILENO},
                           std::pair{program.err, STDERR_FILENO}};
  for (const auto& [from, to] : streams) {
    if (from >= 0 && (from == to ? ::fcntl(to, F_SETFD, 0) : ::dup2(from, to)) < 0) {
      return errno;
    }
  }
  reset_signals();
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  return 0;
}

// What the child says, once it has become the program: 0, or why not.
int answer_of(int fd) {
  int error = 0;
  ssize_t bytes = 0;
  do {
    bytes = ::read(fd, &error, sizeof(error));
  } while (bytes < 0 && errno == EINTR);
  return bytes == sizeof(error) ? error : 0;
}

// Returns whether it has ended.
Result<bool> wait(pid_t child, int options, ChildEnd& end) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(child, &status, options);
  } while (ended < 0 && errno == EINTR);
  if (ended < 0) {
    return make_error(ErrorCode::kIo, "lost the program that was started: {}", describe(errno));
  }
  constexpr int kBySignal = 128;
  end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  end.status = end.signal != 0 ? kBySignal + end.signal : WEXITSTATUS(status);
  return ended == child;
}

tl::unexpected<Error> cannot_run(const ChildProgram& program, int error) {
  return make_error(error == ENOENT ? ErrorCode::kUnsupported : ErrorCode::kIo,
                    "cannot run '{}': {}", program.words.front(), describe(error));
}

}  // namespace

Result<pid_t> start_child(const ChildProgram& program) {
  std::vector<std::string> words = program.words;
  std::vector<std::string> environment = environment_of(program);

  const std::vector<char*> words_of_it = pointers(words);
  const std::vector<char*> environment_of_it = pointers(environment);
  Answer answer;
  if (!open_answer(answer)) {
    const int error = errno;
    close_answer(answer);
    return cannot_run(program, error);
  }
  // No handler of ours runs in the child.
  sigset_t all;
  sigset_t mask;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &mask);
  const pid_t child = ::fork();
  if (child == 0) {
    int error = prepare(program, answer, mask);
    if (error == 0) {
      ::execvpe(words_of_it.front(), words_of_it.data(), environment_of_it.data());
      error = errno;
    }
    [[maybe_unused]] const ssize_t written = ::write(answer.write, &error, sizeof(error));
    ::_exit(EXIT_FAILURE);
  }
  int error = errno;
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  if (child > 0) {
    ::close(std::exchange(answer.write, -1));
    error = answer_of(answer.read);
  }
  close_answer(answer);
  if (error == 0) {
    return child;
  }
  if (child > 0) {
    (void)wait_for_child(child);
  }
  return cannot_run(program, error);
}

Result<ChildEnd> wait_for_child(pid_t child) {
  ChildEnd end;
  return wait(child, 0, end).map([&](bool) { return end; });
}

Result<std::optional<ChildEnd>> look_after_child(pid_t child) {
  ChildEnd end;
  return wait(child, WNOHANG, end).map([&](bool ended) {
    return ended ? std::optional(end) : std::nullopt;
  });
}

}  // namespace spillway
