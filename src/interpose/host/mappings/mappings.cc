// Anonymous mappings, in front of the C library's calls: what is large and plain goes into the
// space, and what programs do to mappings is done to what lies there. Layer: interpose, host.
// docs/host.md has the table of what is carried out, what is refused, and why.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <span>

#include "interpose/host/mappings/pages.h"
#include "interpose/host/next.h"
#include "interpose/host/process/bare_call.h"
#include "interpose/host/session.h"
#include "interpose/host/take.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"

namespace spillway::preload {
namespace {

constexpr int kPlain = MAP_PRIVATE | MAP_ANONYMOUS;

void* map(void* start, std::size_t bytes, int protection, int flags, int fd, off_t offset,
          const void* caller) {
  // Arenas of interpreters (Python's are 1 MiB) are full of small objects in constant use.
  const bool plain = start == nullptr && bytes >= kBlockBytes &&
                     (flags & ~(MAP_NORESERVE | MAP_POPULATE)) == kPlain &&
                     protection == kReadWrite && !in_allocator(caller);
  if (plain && ((flags & MAP_NORESERVE) == 0 || may_promise(bytes))) {
    bool refused = false;
    void* const memory = take(bytes, kPageBytes, true, refused);
    if (memory != nullptr || refused) {
      return memory == nullptr ? MAP_FAILED : memory;
    }
  }
  const bool fixed = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
  if (!fixed || !meets_space(start, bytes) || (session(false) == nullptr && in_space(start))) {
    return real_mmap(start, bytes, protection, flags, fd, offset);
  }
  if ((flags & MAP_FIXED_NOREPLACE) == MAP_FIXED_NOREPLACE) {
    errno = EEXIST;
    return MAP_FAILED;
  }
  constexpr int kMayBe = kPlain | MAP_NORESERVE | MAP_POPULATE | MAP_FIXED | MAP_STACK;
  if ((flags & ~kMayBe) != 0 || (flags & kPlain) != kPlain) {
    end_run(
        fmt::format("the program maps {} of a file, or of shared memory, over a large "
                    "allocation of its own (MAP_FIXED); that cannot be moved: keep that memory "
                    "out with --threshold",
                    format_bytes(bytes)));
  }
  return renew_pages(start, bytes, protection) == 0 ? start : MAP_FAILED;
}

// Where the old bytes are given up, block by block, after they have been copied.
void* move(void* start, std::size_t old_bytes, std::size_t bytes, void* to) {
  auto* const from = static_cast<char*>(start);
  for (std::size_t done = 0; done < old_bytes; done += kBlockBytes) {
    if (done < bytes) {
      std::memcpy(static_cast<char*>(to) + done, from + done,
                  std::min(kBlockBytes, std::min(old_bytes, bytes) - done));
    }
    unmap_pages(from + done, std::min(kBlockBytes, old_bytes - done));
  }
  return to;
}

void* carry_over(void* start, std::size_t old_bytes, std::size_t bytes, int flags, void* to) {
  old_bytes = round_up(old_bytes, kPageBytes);
  bytes = round_up(bytes, kPageBytes);
  if (old_bytes == 0 || bytes == 0) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  if ((flags & MREMAP_FIXED) != 0) {
    void* const made = ::mmap(to, bytes, kReadWrite, kPlain | MAP_FIXED, -1, 0);
    return made == MAP_FAILED ? made : move(start, old_bytes, bytes, made);
  }
  constexpr int kDontUnmap = 4;
  const bool keeps = (flags & kDontUnmap) != 0;
  if (bytes <= old_bytes && !keeps) {
    if (bytes < old_bytes) {
      unmap_pages(static_cast<char*>(start) + bytes, old_bytes - bytes);
    }
    return start;
  }
  if (!keeps && grow(start, bytes)) {
    advise_pages(static_cast<char*>(start) + old_bytes, bytes - old_bytes, MADV_DONTNEED);
    return start;
  }
  if ((flags & MREMAP_MAYMOVE) == 0) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  bool refused = false;
  void* made = take_with_room(bytes, refused);
  if (made != nullptr) {
    advise_pages(static_cast<char*>(made) + old_bytes, bytes - old_bytes, MADV_DONTNEED);
  } else if (made = ::mmap(nullptr, bytes, kReadWrite, kPlain, -1, 0); made == MAP_FAILED) {
    return made;
  }
  if (!keeps) {
    return move(start, old_bytes, bytes, made);
  }
  std::memcpy(made, start, old_bytes);
  advise_pages(start, old_bytes, MADV_DONTNEED);
  return made;
}

// What children are to find there goes with it.
void* remap(void* start, std::size_t old_bytes, std::size_t bytes, int flags, void* to) {
  const bool wiped = wiped_in_children(start);
  void* const made = carry_over(start, old_bytes, bytes, flags, to);
  if (wiped && made != MAP_FAILED) {
    ::madvise(made, bytes, MADV_WIPEONFORK);
  }
  return made;
}

// Whether a descriptor of a process, or what stands for one, is the caller's. Allocates nothing.
bool is_this_process(int descriptor) {
  constexpr int kItself = -10001;  // newer than some systems' headers
  constexpr int kItsThread = -10000;
  if (descriptor == kItself || descriptor == kItsThread) {
    return true;
  }
  std::array<char, 64> words{};
  std::snprintf(words.data(), words.size(), "/proc/self/fdinfo/%d", descriptor);
  const int file = static_cast<int>(bare_call(SYS_openat, AT_FDCWD, words.data(), O_RDONLY));
  std::array<char, 512> text{};
  const long got = file < 0 ? -1 : bare_call(SYS_read, file, text.data(), text.size() - 1);
  bare_call(SYS_close, file);
  std::snprintf(words.data(), words.size(), "\nPid:\t%d\n", ::getpid());
  return got > 0 && std::strstr(text.data(), words.data()) != nullptr;
}

}  // namespace
}  // namespace spillway::preload

namespace pre = spillway::preload;

extern "C" {

void* mmap(void* start, std::size_t bytes, int protection, int flags, int fd,
           off_t offset) noexcept {
  return pre::map(start, bytes, protection, flags, fd, offset, __builtin_return_address(0));
}

void* mmap64(void* start, std::size_t bytes, int protection, int flags, int fd,
             off_t offset) noexcept {
  return pre::map(start, bytes, protection, flags, fd, offset, __builtin_return_address(0));
}

int munmap(void* start, std::size_t bytes) noexcept {
  return pre::meets_space(start, bytes) ? pre::unmap_pages(start, bytes)
                                        : pre::real_munmap(start, bytes);
}

void* mremap(void* start, std::size_t old_bytes, std::size_t bytes, int flags, ...) noexcept {
  va_list more;
  va_start(more, flags);
  void* const to = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void*) : nullptr;
  va_end(more);
  if (pre::meets_space(start, old_bytes)) {
    return pre::remap(start, old_bytes, bytes, flags, to);
  }
  if (to != nullptr && pre::meets_space(to, bytes)) {
    spillway::end_run(
        "the program moves a mapping onto a large allocation of its own (MREMAP_FIXED); that "
        "cannot "
        "be carried out: keep that memory out with --threshold");
  }
  return pre::real_mremap(start, old_bytes, bytes, flags, to);
}

int madvise(void* start, std::size_t bytes, int advice) noexcept {
  return pre::meets_space(start, bytes) ? pre::advise_pages(start, bytes, advice)
                                        : pre::real_madvise(start, bytes, advice);
}

// By a descriptor of its own the kernel lets a process give itself more advice than others. What it
// allows is asked first, of nothing.
ssize_t process_madvise(int process, const iovec* parts, std::size_t count, int advice,
                        unsigned flags) noexcept {
  const auto ask = [&](const iovec* of, std::size_t how_many) {
    return pre::bare_call(SYS_process_madvise, process, of, how_many, advice, flags);
  };
  const auto is_ours = [](const iovec& part) {
    return pre::meets_space(part.iov_base, part.iov_len);
  };
  const iovec nothing{.iov_base = nullptr, .iov_len = 0};
  if (spillway::in_service() || count > IOV_MAX || std::none_of(parts, parts + count, is_ours) ||
      !pre::is_this_process(process) || ask(&nothing, 1) != 0) {
    return ask(parts, count);
  }
  ssize_t done = 0;
  for (const iovec& part : std::span(parts, count)) {
    if (::madvise(part.iov_base, part.iov_len, advice) != 0) {
      return done > 0 ? done : -1;
    }
    done += static_cast<ssize_t>(part.iov_len);
  }
  return done;
}

int posix_madvise(void* start, std::size_t bytes, int advice) noexcept {
  static const auto next = pre::next<int (*)(void*, std::size_t, int)>("posix_madvise");
  return pre::meets_space(start, bytes) ? 0 : next(start, bytes, advice);
}

int mprotect(void* start, std::size_t bytes, int protection) noexcept {
  return pre::meets_space(start, bytes)
             ? pre::protect_pages(start, bytes, protection)
             : static_cast<int>(pre::bare_call(SYS_mprotect, start, bytes, protection));
}

int pkey_mprotect(void* start, std::size_t bytes, int protection, int key) noexcept {
  if (key != -1 && pre::meets_space(start, bytes)) {
    errno = EINVAL;  // as where there are no such keys
    return -1;
  }
  return key == -1
             ? mprotect(start, bytes, protection)
             : static_cast<int>(pre::bare_call(SYS_pkey_mprotect, start, bytes, protection, key));
}

int mlock(const void* start, std::size_t bytes) noexcept {
  return pre::meets_space(start, bytes)
             ? pre::lock_pages(const_cast<void*>(start), bytes)  // NOLINT(*-const-cast)
             : static_cast<int>(pre::bare_call(SYS_mlock, start, bytes));
}

int mlock2(const void* start, std::size_t bytes, unsigned flags) noexcept {
  return pre::meets_space(start, bytes)
             ? pre::lock_pages(const_cast<void*>(start), bytes)  // NOLINT(*-const-cast)
             : static_cast<int>(pre::bare_call(SYS_mlock2, start, bytes, flags));
}

int munlock(const void* start, std::size_t bytes) noexcept {
  return pre::meets_space(start, bytes)
             ? pre::unlock_pages(const_cast<void*>(start), bytes)  // NOLINT(*-const-cast)
             : static_cast<int>(pre::bare_call(SYS_munlock, start, bytes));
}

// All memory of the process is also that of the space, which has to move.
int mlockall(int flags) noexcept {
  if (pre::session(false) != nullptr) {
    spillway::say(
        "the program wants all its memory locked (mlockall), which is refused: its large "
        "allocations are Spillway's, and move");
    errno = ENOMEM;
    return -1;
  }
  const int answer = static_cast<int>(pre::bare_call(SYS_mlockall, flags));
  if (answer == 0 && (flags & MCL_FUTURE) != 0) {
    spillway::say("the program locks all its future memory (mlockall): none of it is Spillway's");
    pre::make_no_space();
  }
  return answer;
}

int munlockall() noexcept {
  pre::unlock_all_pages();
  return static_cast<int>(pre::bare_call(SYS_munlockall));
}

// A userfaultfd of the program's own cannot watch what ours watches.
int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list more;
  va_start(more, request);
  void* const argument = va_arg(more, void*);
  va_end(more);
  if (spillway::in_service()) {  // which must not look anything up (descriptors.cc)
    return static_cast<int>(pre::bare_call(SYS_ioctl, fd, request, argument));
  }
  if (request == UFFDIO_REGISTER && argument != nullptr) {
    const auto& range = static_cast<const uffdio_register*>(argument)->range;
    if (pre::meets_space(reinterpret_cast<void*>(range.start), range.len)) {  // NOLINT
      spillway::end_run(
          "the program watches a large allocation with a userfaultfd of its own, where Spillway's "
          "is; that cannot be carried out: keep that memory out with --threshold");
    }
  }
  static const auto next = pre::next<int (*)(int, unsigned long, void*)>("ioctl");
  return next(fd, request, argument);
}

// The kernel reads these pages when whoever takes them out of the pipe does, or when they have been
// sent: later than this.
ssize_t vmsplice(int fd, const iovec* parts, std::size_t count, unsigned flags) {
  static const auto next =
      pre::next<ssize_t (*)(int, const iovec*, std::size_t, unsigned)>("vmsplice");
  pre::keep_no_frames();
  return next(fd, parts, count, flags);
}

int setsockopt(int socket, int level, int name, const void* value, socklen_t bytes) noexcept {
  static const auto next = pre::next<int (*)(int, int, int, const void*, socklen_t)>("setsockopt");
  if (level == SOL_SOCKET && name == SO_ZEROCOPY) {
    pre::keep_no_frames();
  }
  return next(socket, level, name, value, bytes);
}
}
