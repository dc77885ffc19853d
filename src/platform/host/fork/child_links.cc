// See child_links.h.
#include "platform/host/fork/child_links.h"

#include <fmt/format.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "platform/common/process/own_descriptors.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"

namespace spillway::host {
namespace {

constexpr int kWaitingMax = 64;
constexpr int kSecondsForTheParent = 5;
// The parent's messages.
constexpr char kTouch = 't';       // a page
constexpr char kDescriptor = 'd';  // and a descriptor beside it
constexpr char kAllIsGiven = 'a';
constexpr char kEnd = '\0';  // that there will be none any more

constexpr std::string_view kNotGiven =
    "which has ended without giving it (was it killed?); ending this one, as it would see wrong "
    "bytes";

Descriptor make_socket(int flags) {
  return Descriptor(at_high_number(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0)));
}

// Only processes that may do to us what they like anyway.
std::optional<ucred> trusted(int socket) {
  ucred who{};
  socklen_t bytes = sizeof(who);
  const bool may = ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
                   (who.uid == ::geteuid() || who.uid == 0);
  return may ? std::optional(who) : std::nullopt;
}

// What it says, and one descriptor or none.
struct Saying {
  char what = kEnd;
  std::uint32_t page = kMarkPage;
};
struct Message {
  Saying saying;
  iovec bytes{.iov_base = &saying, .iov_len = sizeof(saying)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr header{.msg_name = nullptr,
                .msg_namelen = 0,
                .msg_iov = &bytes,
                .msg_iovlen = 1,
                .msg_control = room.data(),
                .msg_controllen = room.size(),
                .msg_flags = 0};
};

bool send(int socket, const Saying& saying, int fd = -1) {
  Message message;
  message.saying = saying;
  if (fd < 0) {
    message.header.msg_controllen = 0;
  } else {
    cmsghdr* const beside = CMSG_FIRSTHDR(&message.header);
    beside->cmsg_level = SOL_SOCKET;
    beside->cmsg_type = SCM_RIGHTS;
    beside->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(beside), &fd, sizeof(fd));
  }
  return ::sendmsg(socket, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(saying);
}

// Without the allocator, whose locks a thread may hold that forks, and waits for the parent.
[[noreturn]] void end_child(std::string_view why) {
  fmt::memory_buffer line;
  fmt::format_to(std::back_inserter(line),
                 "process {} has inherited memory that was to come from the process that made it, "
                 "{}",
                 ::getpid(), why);
  end_run({line.data(), line.size()});
}

[[noreturn]] void end_child_without(const char* what) {
  fmt::memory_buffer why;
  fmt::format_to(std::back_inserter(why),
                 "and cannot {}: {}; ending this one, as it might see wrong bytes", what,
                 std::strerror(errno));
  end_child({why.data(), why.size()});
}

// `fd` is what came beside it, if anything.
Saying receive(int socket, Descriptor& fd) {
  Message message;
  ssize_t bytes = 0;
  do {
    bytes = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  const bool whole = bytes == sizeof(message.saying);
  const cmsghdr* const beside = whole ? CMSG_FIRSTHDR(&message.header) : nullptr;
  if (beside != nullptr && beside->cmsg_len == CMSG_LEN(sizeof(int))) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(beside), sizeof(number));
    fd = Descriptor(number);
  }
  if (whole && (message.header.msg_flags & MSG_CTRUNC) != 0) {
    errno = EMFILE;
    end_child_without("take a file descriptor from it");
  }
  return whole ? message.saying : Saying{};
}

// Its descriptors are its own, so that the child's program sees none of them and keeps nothing open
// through it.
void take_own_descriptors() {
  constexpr unsigned kAll = ~0U;
  if (::unshare(CLONE_FILES) == 0) {
    ::close(STDIN_FILENO);
    ::close(STDOUT_FILENO);
    close_between(STDERR_FILENO + 1, kAll);
  }
}

// False: nobody listens there, any more or in this network namespace.
bool connect_to(const LinkAddress& address, const Descriptor& socket) {
  const auto* const name = reinterpret_cast<const sockaddr*>(&address.name);  // NOLINT
  if (::connect(socket.get(), name, address.bytes) == 0) {
    return true;
  }
  if (errno != ECONNREFUSED && errno != ECONNRESET && errno != EPIPE) {
    end_child_without("reach it");
  }
  return false;
}

// What the thread of this process has been asked to do. Not on the heap: it is needed as soon as a
// child begins.
struct Asking {
  LinkAddress address;
  char* probe = nullptr;
  bool* has_all = nullptr;
  std::atomic<bool> takes_all{false};
  sem_t ready{};
};
Asking asking;

// Not there again, for children of this one.
void touch(std::uint32_t page) {
  char* const place = asking.probe + page * kPageBytes;
  (void)*static_cast<const volatile char*>(place);
  ::madvise(place, kPageBytes, MADV_DONTNEED);
}

// A parent that cannot be reached, but lives, gives all before this returns. One that is gone has
// either given all, or the page is zeros: nobody else may have the descriptor open.
void take_all() {
  asking.takes_all = true;
  const char* const mark = asking.probe + kMarkPage * kPageBytes;
  if (*static_cast<const volatile char*>(mark) == 0) {
    end_child(kNotGiven);
  }
  __atomic_store_n(asking.has_all, true, __ATOMIC_RELAXED);
  ::sem_post(&asking.ready);
}

void keep() {
  take_own_descriptors();
  const Descriptor socket = make_socket(0);
  if (socket.get() < 0) {
    end_child_without("open a socket to it");
  }
  const bool connected = connect_to(asking.address, socket);
  Descriptor userfault;
  while (true) {
    const Saying saying = connected ? receive(socket.get(), userfault) : Saying{};
    if (saying.what == kEnd && userfault.get() < 0) {
      take_all();
      return;
    }
    if (saying.what == kEnd) {
      end_child(kNotGiven);
    }
    if (saying.what == kTouch) {
      touch(saying.page);
      continue;
    }
    if (saying.what == kAllIsGiven) {
      __atomic_store_n(asking.has_all, true, __ATOMIC_RELAXED);
    }
    ::sem_post(&asking.ready);
    if (saying.what == kAllIsGiven) {
      return;
    }
  }
}

}  // namespace

ChildLinks::ChildLinks() : listening_(make_socket(SOCK_NONBLOCK)) {
  // A name of the kernel's choice, in no folder.
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socklen_t bytes = sizeof(address_.name);
  auto* const any = reinterpret_cast<sockaddr*>(&name);              // NOLINT(*-reinterpret-cast)
  auto* const chosen = reinterpret_cast<sockaddr*>(&address_.name);  // NOLINT(*-reinterpret-cast)
  if (listening_.get() >= 0 &&
      ::bind(listening_.get(), any, offsetof(sockaddr_un, sun_path)) == 0 &&
      ::listen(listening_.get(), kWaitingMax) == 0 &&
      ::getsockname(listening_.get(), chosen, &bytes) == 0) {
    address_.bytes = bytes;
  }
}

void ChildLinks::add_to(std::vector<pollfd>& waits) const {
  if (address_.bytes > 0) {
    waits.push_back({.fd = listening_.get(), .events = POLLIN, .revents = 0});
  }
  for (const Link& link : links_) {
    waits.push_back({.fd = link.socket.get(), .events = POLLIN, .revents = 0});
  }
}

void ChildLinks::serve() {
  while (address_.bytes > 0) {
    Descriptor socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) {
      break;
    }
    if (const auto who = trusted(socket.get())) {
      links_.push_back({.socket = std::move(socket), .process = who->pid});
    }
  }
  links_.remove_if([](const Link& link) {
    char nothing = 0;
    const ssize_t bytes = ::recv(link.socket.get(), &nothing, sizeof(nothing), MSG_DONTWAIT);
    return bytes >= 0 || (errno != EAGAIN && errno != EINTR);
  });
  for (Link& link : links_) {
    if (link.userfault < 0 && link.page == kMarkPage) {
      const std::uint32_t page = free_page();
      link.page = page != kMarkPage && send(link.socket.get(), {kTouch, page}) ? page : kMarkPage;
    }
  }
}

// The mark where all are taken: whoever it is for waits until one is answered.
std::uint32_t ChildLinks::free_page() const {
  for (std::uint32_t page = kMarkPage + 1; page < kProbePages; ++page) {
    if (std::none_of(links_.begin(), links_.end(),
                     [&](const Link& link) { return link.page == page; })) {
      return page;
    }
  }
  return kMarkPage;
}

std::optional<pid_t> ChildLinks::give(std::uint32_t page, int userfault) {
  const auto link =
      std::find_if(links_.begin(), links_.end(), [&](const Link& one) { return one.page == page; });
  if (page == kMarkPage || link == links_.end() ||
      !send(link->socket.get(), {kDescriptor, page}, userfault)) {
    return std::nullopt;
  }
  link->page = kMarkPage;
  link->userfault = userfault;
  return link->process;
}

void ChildLinks::tell_all_is_given(int userfault) {
  for (const Link& link : links_) {
    if (link.userfault == userfault) {
      send(link.socket.get(), {kAllIsGiven, kMarkPage});
    }
  }
}

void link_to_parent(const LinkAddress& address, char* probe, bool* has_all) {
  if (address.bytes == 0) {
    return;
  }
  asking.address = address;
  asking.probe = probe;
  asking.has_all = has_all;
  asking.takes_all = false;
  ::sem_init(&asking.ready, 0, 0);
  errno = start_service_thread("spw-parent", keep);
  if (errno != 0) {
    end_child_without("start the thread that asks for it");
  }
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kSecondsForTheParent;
  int error = 0;
  do {  // all may be much, and the parent bounds the time for it
    error =
        (asking.takes_all ? ::sem_wait(&asking.ready) : ::sem_timedwait(&asking.ready, &until)) == 0
            ? 0
            : errno;
  } while (error == EINTR || (error == ETIMEDOUT && asking.takes_all));
}

}  // namespace spillway::host
