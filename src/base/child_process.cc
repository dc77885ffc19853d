// See child_process.h.
#include "base/child_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

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

}  // namespace

Result<pid_t> start_child(const ChildProgram& program) {
  std::vector<std::string> words = program.words;
  std::vector<std::string> environment = environment_of(program);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t interrupts;
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  sigaddset(&interrupts, SIGQUIT);
  posix_spawnattr_setsigdefault(&attributes, &interrupts);
  const int group = program.leads_group ? POSIX_SPAWN_SETPGROUP : 0;
  posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGDEF | group));

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::array streams{std::pair{program.in, STDIN_FILENO},
                           std::pair{program.out, STDOUT_FILENO},
                           std::pair{program.err, STDERR_FILENO}};
  for (const auto& [from, to] : streams) {
    if (from >= 0) {
      posix_spawn_file_actions_adddup2(&actions, from, to);
    }
  }
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, words.front().c_str(), &actions, &attributes,
                                   pointers(words).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return make_error(error == ENOENT ? ErrorCode::kUnsupported : ErrorCode::kIo,
                      "cannot run '{}': {}", words.front(), describe(error));
  }
  return child;
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
