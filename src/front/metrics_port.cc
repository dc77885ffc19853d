// See metrics_port.h.
#include "front/metrics_port.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{1};

enum class Wait : std::uint8_t { kReady, kLate, kStopped };

// Until `fd` can be read, no longer than that; a negative time is for ever.
Wait wait_for(int fd, int stop, std::chrono::milliseconds time) {
  std::array<pollfd, 2> both{pollfd{.fd = stop, .events = POLLIN, .revents = 0},
                             pollfd{.fd = fd, .events = POLLIN, .revents = 0}};
  int ready = 0;
  do {
    ready = ::poll(both.data(), both.size(), static_cast<int>(time.count()));
  } while (ready < 0 && errno == EINTR);
  return ready < 0 || both[0].revents != 0 ? Wait::kStopped
         : ready == 0                      ? Wait::kLate
                                           : Wait::kReady;
}

// Up to the empty line behind its headers; empty where that does not come.
std::string request_from(int fd, int stop) {
  constexpr std::size_t kMost = 8192;
  const Clock::time_point until = Clock::now() + kPatience;
  std::string text;
  while (text.find("\r\n\r\n") == std::string::npos) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() < 0 || text.size() > kMost || wait_for(fd, stop, left) != Wait::kReady) {
      return {};
    }
    std::array<char, 1024> part{};
    const ssize_t read = ::recv(fd, part.data(), part.size(), 0);
    if (read <= 0) {
      return {};
    }
    text.append(part.data(), static_cast<std::size_t>(read));
  }
  return text;
}

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

void send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) {
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
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
  while (wait_for(socket_.get(), stop, std::chrono::milliseconds(-1)) == Wait::kReady) {
    const Descriptor client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client.get() < 0) {
      constexpr useconds_t kPauseUs = 10'000;  // no more descriptors, perhaps
      ::usleep(kPauseUs);
      continue;
    }
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    ::setsockopt(client.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (const std::string request = request_from(client.get(), stop); !request.empty()) {
      send_all(client.get(), answer_to(request, text));
    }
  }
}

}  // namespace spillway
