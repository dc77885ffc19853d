// The ways out of a process that run nothing of what the program or a library has put before them:
// what is left to do is done first (ending.h). Layer: interpose, host.
#include <alloca.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstddef>

#include "interpose/host/next.h"
#include "interpose/host/process/bare_call.h"
#include "interpose/host/process/ending.h"
#include "platform/common/process/service_thread.h"

namespace spillway::preload {
namespace {

// How many words an execl names, with the null pointer that ends them.
std::size_t count_words(const char* first, va_list* words) {
  std::size_t count = 1;
  for (const char* word = first; word != nullptr; word = va_arg(*words, const char*)) {
    ++count;
  }
  return count;
}

// All of them; `more` then stands behind the null pointer.
void gather(char* first, va_list* more, char** words) {
  for (char* word = first; (*words++ = word) != nullptr;) {
    word = va_arg(*more, char*);
  }
}

// `call` with the words as a list, which is gone with it. `more` then stands behind the null
// pointer.
template <typename Call>
int with_list(const char* first, va_list* more, const Call& call) {
  va_list counted;
  va_copy(counted, *more);
  const std::size_t count = count_words(first, &counted);
  va_end(counted);
  // On the stack, as exec is also called where nothing may allocate.
  auto** const words = static_cast<char**>(alloca(count * sizeof(char*)));
  gather(const_cast<char*>(first), more, words);  // NOLINT(*-const-cast)
  return call(words);
}

}  // namespace
}  // namespace spillway::preload

namespace pre = spillway::preload;

extern "C" {

void _exit(int status) {         // NOLINT(bugprone-reserved-identifier)
  if (spillway::in_service()) {  // which must not look anything up (descriptors.cc)
    pre::bare_call(SYS_exit_group, status);
    __builtin_unreachable();
  }
  static const auto next = pre::next<void (*)(int)>("_exit");
  pre::before_end();
  next(status);
  __builtin_unreachable();
}

void _Exit(int status) noexcept { _exit(status); }  // NOLINT(bugprone-reserved-identifier)

void quick_exit(int status) noexcept {
  static const auto next = pre::next<void (*)(int)>("quick_exit");
  pre::before_end();
  next(status);
  __builtin_unreachable();
}

int execve(const char* path, char* const* words, char* const* environment) noexcept {
  static const auto next = pre::next<int (*)(const char*, char* const*, char* const*)>("execve");
  pre::before_end();
  return next(path, words, environment);
}

int fexecve(int fd, char* const* words, char* const* environment) noexcept {
  static const auto next = pre::next<int (*)(int, char* const*, char* const*)>("fexecve");
  pre::before_end();
  return next(fd, words, environment);
}

int execv(const char* path, char* const* words) noexcept {
  static const auto next = pre::next<int (*)(const char*, char* const*)>("execv");
  pre::before_end();
  return next(path, words);
}

int execvp(const char* file, char* const* words) noexcept {
  static const auto next = pre::next<int (*)(const char*, char* const*)>("execvp");
  pre::before_end();
  return next(file, words);
}

int execvpe(const char* file, char* const* words, char* const* environment) noexcept {
  static const auto next = pre::next<int (*)(const char*, char* const*, char* const*)>("execvpe");
  pre::before_end();
  return next(file, words, environment);
}

int execl(const char* path, const char* word, ...) noexcept {
  va_list more;
  va_start(more, word);
  const int failed =
      pre::with_list(word, &more, [&](char* const* words) { return execv(path, words); });
  va_end(more);
  return failed;
}

int execlp(const char* file, const char* word, ...) noexcept {
  va_list more;
  va_start(more, word);
  const int failed =
      pre::with_list(word, &more, [&](char* const* words) { return execvp(file, words); });
  va_end(more);
  return failed;
}

int execle(const char* path, const char* word, ...) noexcept {
  va_list more;
  va_start(more, word);
  const int failed = pre::with_list(word, &more, [&](char* const* words) {
    return execve(path, words, va_arg(more, char* const*));
  });
  va_end(more);
  return failed;
}
}
