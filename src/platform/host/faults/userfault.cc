// See userfault.h.
#include "platform/host/faults/userfault.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "platform/common/process/own_descriptors.h"
#include "platform/common/process/say.h"

namespace spillway::host {
namespace {

constexpr std::uint64_t kWantedFeatures = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_THREAD_ID;

// Newer than the headers of some systems that run it.
constexpr std::uint64_t kFeatureMove = std::uint64_t{1} << 16U;
struct PoisonArgument {
  uffdio_range range;
  __u64 mode;
  __s64 done;
};
constexpr unsigned long kPoison = _IOWR(UFFDIO, 0x08, PoisonArgument);
constexpr std::uint64_t kPoisonWakesNobody = 1;

// The system call serves those with the capability or where the sysctl allows it, the device node
// those whom its permissions admit. Both report faults that happen inside system calls.
int open_descriptor() {
  const long fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0 || errno != EPERM) {
    return at_high_number(static_cast<int>(fd));
  }
  const int device = ::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  if (device < 0) {
    errno = EPERM;
    return -1;
  }
  const int from_device = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
  const int error = errno;
  ::close(device);
  errno = error;
  return at_high_number(from_device);
}

std::string why_not(int error) {
  if (error == EPERM) {
    return "userfaultfd is not permitted: run `sysctl vm.unprivileged_userfaultfd=1` as root, or "
           "give this user access to /dev/userfaultfd, or run with the capability CAP_SYS_PTRACE; "
           "a container's filter of system calls (seccomp) has to allow it as well";
  }
  if (error == ENOSYS) {
    return "this kernel has no userfaultfd (CONFIG_USERFAULTFD)";
  }
  return fmt::format("userfaultfd: {}", std::strerror(error));
}

// A descriptor is to be had, but not with what has to be.
std::string why_not_enabled(int error) {
  if (error == EPERM || error == EACCES) {
    return "userfaultfd can be opened, but not used: a filter of system calls (seccomp), such as a "
           "container's, refuses its ioctl (UFFDIO_API); let it allow that";
  }
  return "this kernel's userfaultfd has no write protection; Linux 5.7 or newer has";
}

// 0, or an error number. A descriptor that has refused features must be opened anew.
int enable(int fd, std::uint64_t features) {
  uffdio_api api{.api = UFFD_API, .features = features, .ioctls = 0};
  return ioctl(fd, UFFDIO_API, &api) == 0 ? 0 : errno;
}

// The kernel takes ranges within one mapping only, and the program may have divided ours: each half
// by itself then. Both are carried out: what a child has given back of a block must not keep the
// rest from it. The first error that `carry_out` returns.
template <typename CarryOut>
int by_halves(Bytes bytes, const CarryOut& carry_out) {
  const Bytes half = round_up(bytes / 2, kPageBytes);
  const int error = carry_out(Bytes{0}, half);
  const int other = carry_out(half, bytes - half);
  return error != 0 && (error != ENOENT || other == 0) ? error : other;
}

}  // namespace

UserfaultSupport userfault_support() {
  UserfaultSupport support;
  Descriptor plain(open_descriptor());
  if (plain.get() < 0) {
    support.reason = why_not(errno);
    // Whether only faults of user code could be served.
    Descriptor user(
        static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
    support.opens = user.get() >= 0;
    support.moves = enable(user.get(), kFeatureMove) == 0;
    return support;
  }
  support.opens = true;
  support.kernel_faults = true;
  const int error = enable(plain.get(), kWantedFeatures);
  support.write_protection = error == 0;
  if (!support.write_protection) {
    support.reason = why_not_enabled(error);
  }
  const Descriptor moves(open_descriptor());
  support.moves = enable(moves.get(), kWantedFeatures | kFeatureMove) == 0;
  const Descriptor forks(open_descriptor());
  support.fork_events = enable(forks.get(), kWantedFeatures | UFFD_FEATURE_EVENT_FORK) == 0;
  return support;
}

Result<Userfault> Userfault::open() {
  const std::uint64_t forks = UFFD_FEATURE_EVENT_FORK;
  int error = 0;
  for (const std::uint64_t more : {forks | kFeatureMove, kFeatureMove, forks, std::uint64_t{0}}) {
    Descriptor fd(open_descriptor());
    if (fd.get() < 0) {
      return make_error(ErrorCode::kUnsupported, "{}", why_not(errno));
    }
    error = enable(fd.get(), kWantedFeatures | more);
    if (error == 0) {
      return Userfault(std::move(fd), (more & forks) != 0, (more & kFeatureMove) != 0, true);
    }
  }
  return make_error(ErrorCode::kUnsupported, "{}", why_not_enabled(error));
}

// An ioctl on a descriptor that the program may have closed: nobody can be served any more.
int Userfault::call(unsigned long request, void* argument) const {
  const int result = ioctl(fd_.get(), request, argument);
  if (result != 0 && (errno == EBADF || errno == ENOTTY)) {
    end_run(
        fmt::format("the program has closed file descriptor {}, which was Spillway's, by a bare "
                    "system call; its memory cannot be moved any more, ending it before data is "
                    "lost",
                    fd_.get()));
  }
  return result;
}

std::uint64_t Userfault::address_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);  // NOLINT(*-reinterpret-cast): the kernel's type
}

Status Userfault::watch(void* start, Bytes bytes) const {
  return watch(start, bytes, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP);
}

Status Userfault::admit(void* start, Bytes bytes) const {
  return watch(start, bytes, UFFDIO_REGISTER_MODE_WP);
}

Status Userfault::watch(void* start, Bytes bytes, std::uint64_t mode) const {
  uffdio_register range{
      .range = {.start = address_of(start), .len = bytes}, .mode = mode, .ioctls = 0};
  if (call(UFFDIO_REGISTER, &range) != 0) {
    return make_error(ErrorCode::kUnsupported, "userfaultfd refuses {} of address space: {}",
                      format_bytes(bytes), std::strerror(errno));
  }
  return {};
}

// What has appeared stays: it may have been written. The system may be short of memory for a
// moment.
int Userfault::copy(void* to, const void* from, Bytes bytes, bool writable) const {
  constexpr int kTries = 100;
  constexpr std::chrono::milliseconds kBetween{10};
  Bytes done = 0;
  int tries = 1;
  while (done < bytes) {
    uffdio_copy copy{.dst = address_of(to) + done,
                     .src = address_of(from) + done,
                     .len = bytes - done,
                     .mode = UFFDIO_COPY_MODE_DONTWAKE |
                             (writable ? std::uint64_t{0} : std::uint64_t{UFFDIO_COPY_MODE_WP}),
                     .copy = 0};
    if (call(UFFDIO_COPY, &copy) == 0) {
      return 0;
    }
    const int error = errno;
    if (copy.copy > 0) {  // a part is there
      done += static_cast<Bytes>(copy.copy);
    } else if (error == ENOMEM && patient_ && tries < kTries) {
      ++tries;
      std::this_thread::sleep_for(kBetween);
    } else if (error == ENOENT && bytes - done > kPageBytes) {
      return by_halves(bytes - done, [&](Bytes at, Bytes part) {
        return this->copy(static_cast<char*>(to) + done + at,
                          static_cast<const char*>(from) + done + at, part, writable);
      });
    } else if (!again(error)) {
      return error;
    }
  }
  return 0;
}

int Userfault::zero(void* start, Bytes bytes) const {
  Bytes done = 0;
  while (done < bytes) {
    uffdio_zeropage zero{.range = {.start = address_of(start) + done, .len = bytes - done},
                         .mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE,
                         .zeropage = 0};
    if (call(UFFDIO_ZEROPAGE, &zero) == 0) {
      return 0;
    }
    const int error = errno;
    if (zero.zeropage > 0) {
      done += static_cast<Bytes>(zero.zeropage);
    } else if (!again(error)) {
      return error;
    }
  }
  return 0;
}

int Userfault::poison(void* start, Bytes bytes) const {
  PoisonArgument argument{
      .range = {.start = address_of(start), .len = bytes}, .mode = kPoisonWakesNobody, .done = 0};
  while (call(kPoison, &argument) != 0) {
    const int error = errno;
    if (!again(error)) {
      return error;
    }
  }
  return 0;
}

int Userfault::protect(void* start, Bytes bytes) const {
  return write_protect(start, bytes, UFFDIO_WRITEPROTECT_MODE_WP);
}

int Userfault::unprotect(void* start, Bytes bytes) const { return write_protect(start, bytes, 0); }

int Userfault::write_protect(void* start, Bytes bytes, std::uint64_t mode) const {
  uffdio_writeprotect range{.range = {.start = address_of(start), .len = bytes}, .mode = mode};
  while (call(UFFDIO_WRITEPROTECT, &range) != 0) {
    const int error = errno;
    if (error == ENOENT && bytes > kPageBytes) {
      return by_halves(bytes, [&](Bytes at, Bytes part) {
        return write_protect(static_cast<char*>(start) + at, part, mode);
      });
    }
    if (error != EINTR && !again(error)) {
      return error;
    }
  }
  return 0;
}

// What a fork or an mremap of another thread has interrupted.
bool Userfault::again(int error) const {
  if (error != EAGAIN || !patient_) {
    return false;
  }
  sched_yield();
  return true;
}

void Userfault::wake(void* start, Bytes bytes) const {
  uffdio_range range{.start = address_of(start), .len = bytes};
  call(UFFDIO_WAKE, &range);
}

std::size_t Userfault::read(std::span<uffd_msg> events) const {
  const ssize_t got = ::read(fd_.get(), events.data(), events.size_bytes());
  return got <= 0 ? 0 : static_cast<std::size_t>(got) / sizeof(uffd_msg);
}

}  // namespace spillway::host
