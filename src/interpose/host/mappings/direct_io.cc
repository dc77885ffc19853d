// See direct_io.h. In front of the C library's calls, by their functions; by their numbers they are
// seen in system_calls.cc.
// Threads of ours look nothing up, and what they open is known.
#include "interpose/host/mappings/direct_io.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string_view>

#include "interpose/host/next.h"
#include "interpose/host/process/bare_call.h"
#include "interpose/host/session.h"
#include "platform/common/process/service_thread.h"

namespace spillway::preload {
namespace {

// Drivers may pin what they are handed, whatever the flags; those that any program opens do not.
bool may_pin(std::string_view path) {
  constexpr std::string_view kDevices = "/dev/";
  if (!path.starts_with(kDevices)) {
    return false;
  }
  const std::string_view device = path.substr(kDevices.size());
  for (const std::string_view harmless :
       {"null", "zero", "full", "random", "urandom", "tty", "pts/", "ptmx", "shm/", "fd/", "std",
        "console", "log", "userfaultfd", "hugepages/", "mqueue/"}) {
    if (device.starts_with(harmless)) {
      return false;
    }
  }
  return true;
}

// The mode is there only if the flags say so.
mode_t mode_of(int flags, va_list more) {
  const bool made = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return made ? va_arg(more, mode_t) : 0;
}

using Open = int (*)(const char*, int, ...);
using OpenThere = int (*)(int, const char*, int, ...);
using Control = int (*)(int, int, ...);

int open_here(Open next, const char* path, int flags, mode_t mode) {
  if (in_service()) {
    return static_cast<int>(bare_call(SYS_openat, AT_FDCWD, path, flags, mode));
  }
  const int fd = next(path, flags, mode);
  if (fd >= 0) {
    note_opened(path, flags);
  }
  return fd;
}

int open_there(OpenThere next, int folder, const char* path, int flags, mode_t mode) {
  if (in_service()) {
    return static_cast<int>(bare_call(SYS_openat, folder, path, flags, mode));
  }
  const int fd = next(folder, path, flags, mode);
  if (fd >= 0) {
    note_opened(path, flags);
  }
  return fd;
}

int control(Control next, int fd, int what, void* argument) {
  if (in_service()) {
    return static_cast<int>(bare_call(SYS_fcntl, fd, what, argument));
  }
  if (what == F_SETFL) {
    note_flags(static_cast<int>(kernel_word(argument)));
  }
  return next(fd, what, argument);
}

}  // namespace

void note_opened(const char* path, int flags) {
  if ((flags & O_DIRECT) != 0 || may_pin(path)) {
    expect_pins();
  }
}

void note_flags(int flags) {
  if ((flags & O_DIRECT) != 0) {
    expect_pins();
  }
}

void note_socket(int domain) {
  if (domain == AF_ALG || domain == AF_XDP || domain == AF_RDS) {
    expect_pins();
  }
}

// Those that were inherited, or opened before this library could see it.
void note_open_descriptors() {
  const InService inside;
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) {
    expect_pins();  // as nobody knows
    return;
  }
  while (const dirent* const entry = ::readdir(folder)) {
    const long flags =
        entry->d_name[0] == '.' ? 0 : bare_call(SYS_fcntl, std::atoi(entry->d_name), F_GETFL, 0);
    if (flags > 0) {
      note_flags(static_cast<int>(flags));
    }
  }
  ::closedir(folder);
}

}  // namespace spillway::preload

namespace pre = spillway::preload;

// NOLINTBEGIN(bugprone-reserved-identifier): the C library's names
extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = pre::mode_of(flags, more);
  va_end(more);
  static const auto next = pre::next<pre::Open>("open");
  return pre::open_here(next, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = pre::mode_of(flags, more);
  va_end(more);
  static const auto next = pre::next<pre::Open>("open64");
  return pre::open_here(next, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = pre::mode_of(flags, more);
  va_end(more);
  static const auto next = pre::next<pre::OpenThere>("openat");
  return pre::open_there(next, folder, path, flags, mode);
}

int openat64(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = pre::mode_of(flags, more);
  va_end(more);
  static const auto next = pre::next<pre::OpenThere>("openat64");
  return pre::open_there(next, folder, path, flags, mode);
}

// What the compiler calls where it knows that there is no mode.
int __open_2(const char* path, int flags) {
  static const auto next = pre::next<pre::Open>("__open_2");
  return pre::open_here(next, path, flags, 0);
}
int __open64_2(const char* path, int flags) {
  static const auto next = pre::next<pre::Open>("__open64_2");
  return pre::open_here(next, path, flags, 0);
}
int __openat_2(int folder, const char* path, int flags) {
  static const auto next = pre::next<pre::OpenThere>("__openat_2");
  return pre::open_there(next, folder, path, flags, 0);
}
int __openat64_2(int folder, const char* path, int flags) {
  static const auto next = pre::next<pre::OpenThere>("__openat64_2");
  return pre::open_there(next, folder, path, flags, 0);
}

int open_by_handle_at(int mount, file_handle* handle, int flags) {
  pre::note_flags(flags);
  return pre::next<int (*)(int, file_handle*, int)>("open_by_handle_at")(mount, handle, flags);
}

int mkostemp(char* path, int flags) {
  pre::note_flags(flags);
  return pre::next<int (*)(char*, int)>("mkostemp")(path, flags);
}
int mkostemp64(char* path, int flags) {
  pre::note_flags(flags);
  return pre::next<int (*)(char*, int)>("mkostemp64")(path, flags);
}
int mkostemps(char* path, int suffix, int flags) {
  pre::note_flags(flags);
  return pre::next<int (*)(char*, int, int)>("mkostemps")(path, suffix, flags);
}
int mkostemps64(char* path, int suffix, int flags) {
  pre::note_flags(flags);
  return pre::next<int (*)(char*, int, int)>("mkostemps64")(path, suffix, flags);
}

int fcntl(int fd, int what, ...) {
  va_list more;
  va_start(more, what);
  void* const argument = va_arg(more, void*);
  va_end(more);
  static const auto next = pre::next<pre::Control>("fcntl");
  return pre::control(next, fd, what, argument);
}

int fcntl64(int fd, int what, ...) {
  va_list more;
  va_start(more, what);
  void* const argument = va_arg(more, void*);
  va_end(more);
  static const auto next = pre::next<pre::Control>("fcntl64");
  return pre::control(next, fd, what, argument);
}

int socket(int domain, int type, int protocol) noexcept {
  if (spillway::in_service()) {
    return static_cast<int>(pre::bare_call(SYS_socket, domain, type, protocol));
  }
  pre::note_socket(domain);
  static const auto next = pre::next<int (*)(int, int, int)>("socket");
  return next(domain, type, protocol);
}

// It pins what it writes, as any device does.
ssize_t process_vm_writev(pid_t process, const iovec* from, unsigned long count, const iovec* to,
                          unsigned long to_count, unsigned long flags) noexcept {
  pre::expect_pins();
  return pre::bare_call(SYS_process_vm_writev, process, from, count, to, to_count, flags);
}
}
// NOLINTEND(bugprone-reserved-identifier)
