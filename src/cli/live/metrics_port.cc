// See metrics_port.h.
#include "cli/live/metrics_port.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;
// From connecting to the last byte of the answer.
constexpr std::chrono::seconds kPatience{2};
// At once; one more, and the oldest is given up.
constexpr std::size_t kMostClients = 16;

std::string answer(std::string_view status, std::string_view type, std::string_view text) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, type, text.size(), text);
}

std::string answer_to(std::string_view request, const std::function<std::string()>& text) {
  constexpr std::string_view kPlain = "text/plain; charset=utf-8";
  if (!request.starts_with("GET ")) {
    return answer("405 Method Not Allowed", kPlain, "only GET is answered\n");
  }
  request.remove_prefix(4);
  const std::string_view path = request.substr(0, request.find_first_of(" ?\r"));
  if (path != "/metrics" && path != "/") {
    return answer("404 Not Found", kPlain, "there is only /metrics\n");
  }
  return answer("200 OK", "text/plain; version=0.0.4; charset=utf-8", text());
}

// One that has connected: it asks, and is answered.
class Client {
 public:
  explicit Client(int fd) : socket_(fd) {}

  [[nodiscard]] pollfd wanted() const {
    return {.fd = socket_.get(),
            .events = static_cast<short>(answer_.empty() ? POLLIN : POLLOUT),
            .revents = 0};
  }
  [[nodiscard]] Clock::time_point until() const { return until_; }
  // False when there is nothing more to do for it. Does not wait.
  [[nodiscard]] bool go_on(const std::function<std::string()>& text) {
    return answer_.empty() ? read(text) : send();
  }

 private:
  // Up to the empty line behind its headers.
  bool read(const std::function<std::string()>& text) {
    constexpr std::size_t kMost = 8192;
    std::array<char, 1024> part{};
    const ssize_t bytes = ::recv(socket_.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (bytes <= 0) {
      return bytes < 0 && would_wait();
    }
    request_.append(part.data(), static_cast<std::size_t>(bytes));
    if (request_.find("\r\n\r\n") == std::string::npos) {
      return request_.size() <= kMost;
    }
    answer_ = answer_to(request_, text);
    return send();
  }
  bool send() {
    const std::string_view left = std::string_view(answer_).substr(sent_bytes_);
    const ssize_t bytes =
        ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes < 0) {
      return would_wait();
    }
    sent_bytes_ += static_cast<std::size_t>(bytes);
    return sent_bytes_ < answer_.size();
  }
  static bool would_wait() { return errno == EAGAIN || errno == EINTR; }

  Descriptor socket_;
  Clock::time_point until_ = Clock::now() + kPatience;
  std::string request_;
  std::string answer_;
  std::size_t sent_bytes_ = 0;
};

// One more, whoever else there is.
void take_client(int socket, std::deque<Client>& clients) {
  const int fd = ::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd >= 0) {
    clients.emplace_back(fd);
  } else if (errno == EMFILE || errno == ENFILE) {
    constexpr useconds_t kPauseUs = 10'000;
    ::usleep(kPauseUs);
  }
  if (clients.size() > kMostClients) {
    clients.pop_front();
  }
}

// Until the first of them has to be given up; for ever where there is none.
int milliseconds_of(const std::deque<Client>& clients) {
  if (clients.empty()) {
    return -1;
  }
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(clients.front().until() - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

}  // namespace

Result<MetricsPort> MetricsPort::open(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const address = reinterpret_cast<sockaddr*>(&at);  // NOLINT: what the call takes
  socklen_t bytes = sizeof(at);
  const int on = 1;
  // A run that follows another is not to wait for that one's last connections.
  if (socket.get() < 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(socket.get(), address, bytes) != 0 || ::listen(socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket.get(), address, &bytes) != 0) {
    return make_error(ErrorCode::kInvalidInput,
                      "--metrics: 127.0.0.1:{} cannot be had: {}; take another port, or 0 for any",
                      port, std::generic_category().message(errno));
  }
  return MetricsPort(std::move(socket), ntohs(at.sin_port));
}

void MetricsPort::answer_until(int stop, const std::function<std::string()>& text) const {
  std::deque<Client> clients;  // oldest first
  while (true) {
    std::vector<pollfd> all{{.fd = stop, .events = POLLIN, .revents = 0},
                            {.fd = socket_.get(), .events = POLLIN, .revents = 0}};
    for (const Client& client : clients) {
      all.push_back(client.wanted());
    }
    if (::poll(all.data(), all.size(), milliseconds_of(clients)) < 0 && errno != EINTR) {
      return;
    }
    if (all[0].revents != 0) {
      return;
    }
    std::deque<Client> left;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      const bool ready = all[i + 2].revents != 0;
      if (clients[i].until() > Clock::now() && (!ready || clients[i].go_on(text))) {
        left.push_back(std::move(clients[i]));
      }
    }
    clients = std::move(left);
    if (all[1].revents != 0) {
      take_client(socket_.get(), clients);
    }
  }
}

}  // namespace spillway
