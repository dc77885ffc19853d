// What programs do to descriptors by their numbers, in front of the C library's calls: the one of
// ours that is in the program's table stays. Layer: interpose, host.
// Threads of ours look nothing up: the program may be loading a library, and wait for them.
// To the program it is closed, which is what it had to be; only where the program wants that very
// number there is no way on.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "interpose/host/next.h"
#include "interpose/host/process/bare_call.h"
#include "interpose/host/session.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"

namespace spillway::preload {
namespace {

void must_not_be(int number) {
  if (number >= 0 && number == kept_from_program()) {
    end_run(
        fmt::format("the program copies a file descriptor to number {}, where Spillway's is; "
                    "ending it before data is lost; a smaller limit (ulimit -n) moves it",
                    number));
  }
}

// From first to last, and not that one.
int close_all_but(unsigned kept, unsigned first, unsigned last, int flags) {
  const auto close_range = [&](unsigned from, unsigned to, int how) {
    return static_cast<int>(bare_call(SYS_close_range, from, to, how));
  };
  if (kept < first || kept > last) {
    return close_range(first, last, flags);
  }
  const int below = kept > first ? close_range(first, kept - 1, flags) : 0;
  const int above = kept < last ? close_range(kept + 1, last, flags) : 0;
  return below != 0 ? below : above;
}

}  // namespace
}  // namespace spillway::preload

namespace pre = spillway::preload;

extern "C" {

int close(int fd) {
  if (spillway::in_service()) {
    return static_cast<int>(pre::bare_call(SYS_close, fd));
  }
  static const auto next = pre::next<int (*)(int)>("close");
  if (fd >= 0 && fd == pre::kept_from_program()) {
    errno = EBADF;
    return -1;
  }
  return next(fd);
}

int dup2(int from, int to) {
  if (spillway::in_service()) {
    return static_cast<int>(pre::bare_call(SYS_dup2, from, to));
  }
  static const auto next = pre::next<int (*)(int, int)>("dup2");
  pre::must_not_be(to);
  return next(from, to);
}

int dup3(int from, int to, int flags) {
  if (spillway::in_service()) {
    return static_cast<int>(pre::bare_call(SYS_dup3, from, to, flags));
  }
  static const auto next = pre::next<int (*)(int, int, int)>("dup3");
  pre::must_not_be(to);
  return next(from, to, flags);
}

int close_range(unsigned first, unsigned last, int flags) noexcept {
  return pre::close_all_but(static_cast<unsigned>(pre::kept_from_program()), first, last, flags);
}

void closefrom(int first) noexcept {
  constexpr unsigned kAll = ~0U;
  pre::close_all_but(static_cast<unsigned>(pre::kept_from_program()),
                     first < 0 ? 0U : static_cast<unsigned>(first), kAll, 0);
}
}
