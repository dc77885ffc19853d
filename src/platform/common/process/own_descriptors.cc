// See own_descriptors.h.
#include "platform/common/process/own_descriptors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "platform/common/process/descriptor.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"

namespace spillway {
namespace {

// More than any table has to be copied for at a fork, and less than most programs may open.
constexpr rlim_t kHighest = 4096;
constexpr rlim_t kBelowTheLimit = 64;
constexpr std::size_t kSharedMax = 4;

int high_number() {
  rlimit most{};
  if (::getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur <= 2 * kBelowTheLimit) {
    return 3;
  }
  return static_cast<int>(std::min(most.rlim_cur, kHighest) - kBelowTheLimit);
}

// Where high numbers begin; 0: nobody has said.
std::atomic<int> first_number{0};

// All but standard error and that one, which has a high number. Where there is no standard error
// nothing else may get its number, to which lines for people are written.
void close_all_but(int kept) {
  constexpr unsigned kAll = ~0U;
  ::close(STDIN_FILENO);
  ::close(STDOUT_FILENO);
  close_between(STDERR_FILENO + 1, static_cast<unsigned>(kept) - 1);
  close_between(static_cast<unsigned>(kept) + 1, kAll);
  if (::fcntl(STDERR_FILENO, F_GETFD) < 0) {
    const Descriptor nowhere(::open("/", O_PATH | O_CLOEXEC));  // which nobody can write to
    ::dup3(nowhere.get(), STDERR_FILENO, O_CLOEXEC);
  }
}

// What has been opened for the program's own threads does not reach them.
[[noreturn]] void end_without(const char* step) {
  end_run(fmt::format("cannot {} file descriptors of Spillway's own: {}; see ulimit -n", step,
                      std::strerror(errno)));
}

// A message of one byte, with room for descriptors beside it.
struct Parcel {
  char byte = 0;
  iovec bytes{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kSharedMax * sizeof(int))> room{};
  msghdr message{.msg_name = nullptr,
                 .msg_namelen = 0,
                 .msg_iov = &bytes,
                 .msg_iovlen = 1,
                 .msg_control = room.data(),
                 .msg_controllen = room.size(),
                 .msg_flags = 0};
};

bool send(int socket, const std::vector<int>& fds) {
  Parcel parcel;
  parcel.message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* const header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  return ::sendmsg(socket, &parcel.message, MSG_NOSIGNAL) == 1;
}

std::vector<int> receive(int socket, std::size_t count) {
  Parcel parcel;
  if (::recvmsg(socket, &parcel.message, MSG_CMSG_CLOEXEC) != 1) {
    return {};
  }
  const cmsghdr* const header = CMSG_FIRSTHDR(&parcel.message);
  if (header == nullptr || header->cmsg_len != CMSG_LEN(count * sizeof(int))) {
    return {};
  }
  std::vector<int> fds(count);
  std::memcpy(fds.data(), CMSG_DATA(header), count * sizeof(int));
  return fds;
}

}  // namespace

void close_between(unsigned first, unsigned last) {
  if (first <= last) {
    ::close_range(first, last, 0);
  }
}

int at_high_number(int fd) {
  const int first = first_number.load() > 0 ? first_number.load() : high_number();
  const int high = fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, first);
  if (high < 0) {
    return fd;
  }
  ::close(fd);
  return high;
}

void with_own_descriptors(const std::function<std::vector<int>()>& open_all) {
  std::array<int, 2> sockets{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    (void)open_all();
    return;
  }
  // A program may have been started without standard input and output: the numbers of those are not
  // kept below.
  const Descriptor ours(at_high_number(sockets[0]));
  const Descriptor theirs(at_high_number(sockets[1]));
  // What is free here is free in a table without the program's descriptors as well.
  Descriptor place(::fcntl(ours.get(), F_DUPFD_CLOEXEC, high_number()));
  first_number = place.get();
  std::vector<int> shared;
  bool own = false;
  service_thread("spw-open", [&] {
    own = place.get() > 0 && theirs.get() > STDERR_FILENO && ::unshare(CLONE_FILES) == 0;
    if (own) {
      close_all_but(theirs.get());
    }
    shared = open_all();
    if (own) {
      if (!shared.empty() && !send(theirs.get(), shared)) {
        end_without("send");
      }
      ::close(theirs.get());
    }
  }).join();
  first_number = 0;
  if (!own || shared.empty()) {
    return;
  }
  const std::vector<int> fds = receive(ours.get(), shared.size());
  if (fds.size() != shared.size()) {
    end_without("receive");
  }
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (shared[i] == place.get()) {
      place.release();
    }
    if (::dup3(fds[i], shared[i], O_CLOEXEC) < 0) {
      end_without("place");
    }
    ::close(fds[i]);
  }
}

}  // namespace spillway
