// Draws with a carriage return and one escape sequence, and hides nothing that would have to be
// shown again. See progress.h.
#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace spillway {
namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";
constexpr std::array kEndingSignals{SIGINT, SIGTERM};
constexpr std::size_t kBarColumns = 24;

// Only calls that a signal handler may make. Raising the signal again with its default action ends
// the program the way that a shell expects.
void clear_and_end(int signal) {
  [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, kClearLine.data(), kClearLine.size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void handle_signals(void (*from)(int), void (*to)(int)) {
  for (const int signal : kEndingSignals) {
    // Not where the program was started to ignore it.
    if (const auto old = std::signal(signal, to); old != from) {
      std::signal(signal, old);
    }
  }
}

std::string clock_time(double seconds) {
  const auto whole = static_cast<long>(seconds);
  return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

std::size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool is_drawn_on() {
  const char* const kind = std::getenv("TERM");
  const char* const plain = std::getenv("NO_COLOR");
  return isatty(STDERR_FILENO) == 1 && kind != nullptr && *kind != '\0' &&
         std::string_view(kind) != "dumb" && (plain == nullptr || *plain == '\0');
}

std::string progress_line(std::size_t done, std::size_t total, double elapsed_s,
                          std::size_t columns) {
  const std::size_t filled = total == 0 ? kBarColumns : kBarColumns * done / total;
  std::string line = fmt::format("[{:#<{}}{:.<{}}] {}/{} simulations, {}", "", filled, "",
                                 kBarColumns - filled, done, total, clock_time(elapsed_s));
  if (done > 0 && done < total) {
    const double left_s = elapsed_s * static_cast<double>(total - done) / static_cast<double>(done);
    line += fmt::format(", about {} left", clock_time(left_s));
  }
  return line.substr(0, columns);
}

Progress::Progress(std::size_t total) : total_(total), shown_(total > 0 && is_drawn_on()) {
  if (shown_) {
    handle_signals(SIG_DFL, clear_and_end);
    thread_ = std::jthread([this](const std::stop_token& stop) { redraw_until_stopped(stop); });
  }
}

Progress::~Progress() {
  if (shown_) {
    thread_.request_stop();
    thread_.join();
    handle_signals(clear_and_end, SIG_DFL);
  }
}

void Progress::set_done(std::size_t done) {
  {
    const MutexLock lock(mutex_);
    done_ = done;
  }
  changed_.notify_one();
}

void Progress::redraw_until_stopped(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kRedraw{500};
  const auto start = std::chrono::steady_clock::now();
  const MutexLock lock(mutex_);
  do {  // once in any case: what is done at once is shown as well
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    // One column less than there are, so that no terminal wraps.
    fmt::print(stderr, "{}{}", kClearLine,
               progress_line(done_, total_, elapsed.count(), terminal_columns() - 1));
    std::fflush(stderr);
    const std::size_t drawn = done_;
    changed_.wait_for(mutex_, stop, kRedraw,
                      [&]() SPILLWAY_REQUIRES(mutex_) { return done_ != drawn; });
  } while (!stop.stop_requested());
  fmt::print(stderr, "{}", kClearLine);
  std::fflush(stderr);
}

}  // namespace spillway
