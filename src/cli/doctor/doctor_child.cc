// See doctor_child.h.
#include "cli/doctor/doctor_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/child_process.h"
#include "platform/host/faults/userfault.h"

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  Descriptor read;
  Descriptor write;

  bool open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      return false;
    }
    read = Descriptor(ends[0]);
    write = Descriptor(ends[1]);
    return true;
  }
};

// Until both ends are closed; false if the time is over before.
bool read_all(const Pipe& out, const Pipe& err, Clock::time_point until, ChildOutcome& outcome) {
  std::array<pollfd, 2> ends{{{.fd = out.read.get(), .events = POLLIN, .revents = 0},
                              {.fd = err.read.get(), .events = POLLIN, .revents = 0}}};
  const std::array texts{&outcome.out, &outcome.err};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) {
      return false;
    }
    ::poll(ends.data(), ends.size(), static_cast<int>(left.count()));
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) {
        continue;
      }
      std::array<char, 4096> piece{};
      const ssize_t got = ::read(ends[i].fd, piece.data(), piece.size());
      if (got > 0) {
        texts[i]->append(piece.data(), static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        ends[i].fd = -1;  // poll passes over it
      }
    }
  }
  return true;
}

}  // namespace

Result<ChildOutcome> run_child(std::vector<std::string> words, std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  const std::string name = words.front();
  Pipe out;
  Pipe err;
  if (!out.open() || !err.open()) {
    return make_error(ErrorCode::kIo, "cannot ask {}: {}", name, std::strerror(errno));
  }
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Result<pid_t> child = start_child({.words = std::move(words),
                                           .in = nothing.get(),
                                           .out = out.write.get(),
                                           .err = err.write.get(),
                                           .leads_group = true});
  if (!child) {
    return tl::unexpected<Error>(child.error());
  }
  out.write = Descriptor();
  err.write = Descriptor();
  ChildOutcome outcome;
  const bool in_time = read_all(out, err, until, outcome);
  if (!in_time) {
    ::kill(-*child, SIGKILL);
  }
  const Result<ChildEnd> end = wait_for_child(*child);
  if (!in_time) {
    return make_error(ErrorCode::kIo, "{} did not answer within {} s", name,
                      std::chrono::duration_cast<std::chrono::seconds>(time).count());
  }
  if (!end) {
    return tl::unexpected<Error>(end.error());
  }
  outcome.status = end->status;
  return outcome;
}

}  // namespace spillway
