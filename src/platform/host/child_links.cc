// See child_links.h.
#include "platform/host/child_links.h"

#include <fmt/format.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "platform/common/own_descriptors.h"
#include "platform/common/say.h"
#include "platform/common/service_thread.h"

namespace spillway::host {
namespace {

constexpr int kWaitingMax = 64;
constexpr int kSecondsForTheParent = 5;
// The parent's messages.
constexpr char kDescriptor = 'd';  // and a descriptor beside it
constexpr char kAllIsGiven = 'a';

constexpr std::string_view kNotGiven =
    "which has ended without giving it (was it killed?); ending this one, as it would see wrong "
    "bytes";

Descriptor make_socket(int flags) {
  return Descriptor(at_high_number(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0)));
}

// Names without a file belong to a network namespace. 0: the kernel does not say which it is.
std::uint64_t network_of(int socket) {
  std::uint64_t network = 0;
  socklen_t bytes = sizeof(network);
  return ::getsockopt(socket, SOL_SOCKET, SO_NETNS_COOKIE, &network, &bytes) == 0 ? network : 0;
}

// Only processes that may do to us what they like anyway.
bool is_trusted(int socket) {
  ucred who{};
  socklen_t bytes = sizeof(who);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
         (who.uid == ::geteuid() || who.uid == 0);
}

// One byte, and one descriptor or none.
struct Message {
  char what = 0;
  iovec bytes{.iov_base = &what, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr header{.msg_name = nullptr,
                .msg_namelen = 0,
                .msg_iov = &bytes,
                .msg_iovlen = 1,
                .msg_control = room.data(),
                .msg_controllen = room.size(),
                .msg_flags = 0};
};

bool send(int socket, char what, int fd) {
  Message message;
  message.what = what;
  if (fd < 0) {
    message.header.msg_controllen = 0;
  } else {
    cmsghdr* const beside = CMSG_FIRSTHDR(&message.header);
    beside->cmsg_level = SOL_SOCKET;
    beside->cmsg_type = SCM_RIGHTS;
    beside->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(beside), &fd, sizeof(fd));
  }
  return ::sendmsg(socket, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
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

// 0: the other end is gone. `fd` is what came beside it, if anything.
char receive(int socket, Descriptor& fd) {
  Message message;
  ssize_t bytes = 0;
  do {
    bytes = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  const cmsghdr* const beside = bytes == 1 ? CMSG_FIRSTHDR(&message.header) : nullptr;
  if (beside != nullptr && beside->cmsg_len == CMSG_LEN(sizeof(int))) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(beside), sizeof(number));
    fd = Descriptor(number);
  }
  if (bytes == 1 && (message.header.msg_flags & MSG_CTRUNC) != 0) {
    errno = EMFILE;
    end_child_without("take a file descriptor from it");
  }
  return bytes == 1 ? message.what : '\0';
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

// False: nobody listens any more.
bool connect_to(const LinkAddress& address, const Descriptor& socket) {
  const auto* const name = reinterpret_cast<const sockaddr*>(&address.name);  // NOLINT
  const pid_t own = ::getpid();
  if (::connect(socket.get(), name, address.bytes) == 0 &&
      ::send(socket.get(), &own, sizeof(own), MSG_NOSIGNAL) == sizeof(own)) {
    return true;
  }
  if (errno != ECONNREFUSED && errno != ECONNRESET && errno != EPIPE) {
    end_child_without("reach it");
  }
  return false;
}

// A parent that is gone has either given all, or the page is zeros. Nobody else may have the
// descriptor open.
bool has_been_given_all(const char* mark) { return *static_cast<const volatile char*>(mark) != 0; }

// What the thread of this process has been asked to do. Not on the heap: it is needed as soon as a
// child begins.
struct Asking {
  LinkAddress address;
  const char* mark = nullptr;
  bool* has_all = nullptr;
  sem_t ready{};
};
Asking asking;

void keep() {
  static bool said = false;  // children of this one know it as well
  take_own_descriptors();
  const Descriptor socket = make_socket(0);
  if (socket.get() < 0) {
    end_child_without("open a socket to it");
  }
  const bool connected = connect_to(asking.address, socket);
  if (!connected && network_of(socket.get()) != asking.address.network) {
    if (!std::exchange(said, true)) {
      say("a child of the program is in another network namespace than its parent, from which part "
          "of its memory comes: it must not use that after its parent has been killed");
    }
    ::sem_post(&asking.ready);
    return;
  }
  Descriptor userfault;
  while (true) {
    const char what = connected ? receive(socket.get(), userfault) : '\0';
    if (what == kAllIsGiven ||
        (what == '\0' && userfault.get() < 0 && has_been_given_all(asking.mark))) {
      __atomic_store_n(asking.has_all, true, __ATOMIC_RELAXED);
      ::sem_post(&asking.ready);
      return;
    }
    if (what == '\0') {
      end_child(kNotGiven);
    }
    ::sem_post(&asking.ready);
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
    address_.network = network_of(listening_.get());
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
    if (is_trusted(socket.get())) {
      links_.push_back({.socket = std::move(socket)});
    }
  }
  links_.remove_if([](Link& link) {
    pid_t process = 0;
    const ssize_t bytes = ::recv(link.socket.get(), &process, sizeof(process), MSG_DONTWAIT);
    if (bytes == sizeof(process)) {
      link.process = process;
      return false;
    }
    return bytes >= 0 || (errno != EAGAIN && errno != EINTR);
  });
}

bool ChildLinks::give(pid_t process, int userfault) {
  const auto link = std::find_if(links_.begin(), links_.end(), [&](const Link& one) {
    return one.process == process && one.userfault < 0;
  });
  if (link == links_.end() || !send(link->socket.get(), kDescriptor, userfault)) {
    return false;
  }
  link->userfault = userfault;
  return true;
}

void ChildLinks::tell_all_is_given(int userfault) {
  for (const Link& link : links_) {
    if (link.userfault == userfault) {
      send(link.socket.get(), kAllIsGiven, -1);
    }
  }
}

void link_to_parent(const LinkAddress& address, char* probe, const char* mark, bool* has_all) {
  if (address.bytes == 0) {
    return;
  }
  asking.address = address;
  asking.mark = mark;
  asking.has_all = has_all;
  ::sem_init(&asking.ready, 0, 0);
  errno = start_service_thread("spw-parent", keep);
  if (errno != 0) {
    end_child_without("start the thread that asks for it");
  }
  (void)*static_cast<const volatile char*>(probe);
  ::madvise(probe, kPageBytes, MADV_DONTNEED);  // for children of its own
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kSecondsForTheParent;
  while (::sem_timedwait(&asking.ready, &until) != 0 && errno == EINTR) {
  }
}

}  // namespace spillway::host
