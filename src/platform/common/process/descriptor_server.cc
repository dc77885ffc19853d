// See descriptor_server.h.
#include "platform/common/process/descriptor_server.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "platform/common/process/own_descriptors.h"
#include "platform/common/process/service_thread.h"

namespace spillway {
namespace {

// What is asked, and each answer, is one message.
struct Question {
  std::uint64_t number = 0;
};
struct Answer {
  std::uint64_t there = 0;  // 0: nothing (more)
  std::array<std::uint64_t, 3> words = {};
};

// A message with room for one descriptor beside it.
class Message {
 public:
  Message(void* bytes, std::size_t count) : bytes_{.iov_base = bytes, .iov_len = count} {
    header_.msg_iov = &bytes_;
    header_.msg_iovlen = 1;
    header_.msg_control = room_.data();
    header_.msg_controllen = room_.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  [[nodiscard]] bool send(int socket, int descriptor) {
    if (descriptor < 0) {
      header_.msg_control = nullptr;
      header_.msg_controllen = 0;
    } else {
      cmsghdr* const beside = CMSG_FIRSTHDR(&header_);
      beside->cmsg_level = SOL_SOCKET;
      beside->cmsg_type = SCM_RIGHTS;
      beside->cmsg_len = CMSG_LEN(sizeof descriptor);
      std::memcpy(CMSG_DATA(beside), &descriptor, sizeof descriptor);
    }
    return ::sendmsg(socket, &header_, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes_.iov_len);
  }

  // False if nothing whole came.
  [[nodiscard]] bool receive(int socket, Descriptor& descriptor) {
    const ssize_t got = ::recvmsg(socket, &header_, MSG_CMSG_CLOEXEC);
    const cmsghdr* const beside = got < 0 ? nullptr : CMSG_FIRSTHDR(&header_);
    if (beside != nullptr && beside->cmsg_type == SCM_RIGHTS &&
        beside->cmsg_len == CMSG_LEN(sizeof(int))) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(beside), sizeof fd);
      descriptor = Descriptor(fd);
    }
    return got == static_cast<ssize_t>(bytes_.iov_len);
  }

 private:
  iovec bytes_;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room_{};
  msghdr header_{};
};

struct Address {
  sockaddr_un socket{};
  socklen_t bytes = 0;
};

// An abstract one: nothing of it is left when the process ends.
Address address_of(const std::string& name) {
  Address address;
  address.socket.sun_family = AF_UNIX;
  const std::size_t count = std::min(name.size(), sizeof address.socket.sun_path - 1);
  std::memcpy(address.socket.sun_path + 1, name.data(), count);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
  return address;
}

Descriptor new_socket() {
  return Descriptor(at_high_number(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)));
}

bool is_patient(int socket) {
  const timeval patience{.tv_sec = kDescriptorPatienceNs / 1'000'000'000, .tv_usec = 0};
  return ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
         ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0;
}

bool is_own_user(int socket) {
  ucred other{};
  socklen_t bytes = sizeof other;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &bytes) == 0 &&
         other.uid == ::geteuid();
}

std::atomic<int> listening{-1};

void close_in_child() {
  if (const int socket = listening.exchange(-1); socket >= 0) {
    ::close(socket);
  }
}

void answer(int socket, const FindDescriptor& find) {
  Question question;
  Descriptor none;
  if (!is_own_user(socket) || !is_patient(socket) ||
      !Message(&question, sizeof question).receive(socket, none)) {
    return;
  }
  for (std::uint32_t place = 0;; ++place) {
    const std::optional<SharedDescriptor> found = find(question.number, place);
    Answer answer{.there = found ? 1U : 0U,
                  .words = found ? found->words : std::array<std::uint64_t, 3>{}};
    const int descriptor = found ? found->descriptor.get() : -1;
    if (!Message(&answer, sizeof answer).send(socket, descriptor) || !found) {
      return;
    }
  }
}

void serve(int socket, const FindDescriptor& find) {
  while (true) {
    const Descriptor asking(::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC));
    if (asking.get() >= 0) {
      answer(asking.get(), find);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;  // the program has closed what it has not opened
    }
  }
}

}  // namespace

Status serve_descriptors(const std::string& name, std::function<void()> begin,
                         FindDescriptor find) {
  constexpr int kWaiting = 64;
  Descriptor socket = new_socket();
  const Address address = address_of(name);
  if (socket.get() < 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.socket), address.bytes) !=
          0 ||
      ::listen(socket.get(), kWaiting) != 0) {
    return make_error(ErrorCode::kIo, "a socket for other processes: {}", std::strerror(errno));
  }
  const int fd = socket.release();
  listening = fd;
  ::pthread_atfork(nullptr, nullptr, close_in_child);
  service_thread("spw-share", [fd, begin = std::move(begin), find = std::move(find)] {
    begin();
    serve(fd, find);
  }).detach();
  return {};
}

Result<DescriptorClient> DescriptorClient::ask(const std::string& name, std::uint64_t number) {
  Descriptor socket = new_socket();
  const Address address = address_of(name);
  Question question{.number = number};
  if (socket.get() < 0 || !is_patient(socket.get()) ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.socket), address.bytes) !=
          0) {
    return make_error(ErrorCode::kIo, "{}",
                      errno == ECONNREFUSED ? "it has ended" : std::strerror(errno));
  }
  if (!is_own_user(socket.get())) {
    return make_error(ErrorCode::kIo, "it is another user's");
  }
  if (!Message(&question, sizeof question).send(socket.get(), -1)) {
    return make_error(ErrorCode::kIo, "{}", std::strerror(errno));
  }
  return DescriptorClient(std::move(socket));
}

Result<SharedDescriptor> DescriptorClient::next() const {
  Answer answer;
  SharedDescriptor shared;
  errno = ECONNRESET;  // where it has gone without a word
  if (!Message(&answer, sizeof answer).receive(socket_.get(), shared.descriptor)) {
    return make_error(ErrorCode::kIo, "{}", std::strerror(errno));
  }
  if (answer.there == 0 || shared.descriptor.get() < 0) {
    return make_error(ErrorCode::kIo, "it is not there any more");
  }
  shared.words = answer.words;
  return shared;
}

}  // namespace spillway
