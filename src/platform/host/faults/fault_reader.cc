// See fault_reader.h.
#include "platform/host/faults/fault_reader.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "platform/common/process/clock.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"

namespace spillway::host {
namespace {

constexpr std::size_t kQueueCapacity = 4096;

}  // namespace

FaultReader::FaultReader(const Userfault& userfault, const AddressSpace& addresses,
                         ForkServer& forks, WakeUp& wake)
    : queue_(kQueueCapacity),
      userfault_(userfault),
      addresses_(addresses),
      forks_(forks),
      wake_(wake),
      stop_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_(service_thread("spw-fault", [this] { read_until_stopped(); })) {}

FaultReader::~FaultReader() {
  stop_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(stop_event_.get(), &one, sizeof(one));
  thread_.join();
}

void FaultReader::read_until_stopped() {
  while (!stop_) {
    std::array waits{pollfd{.fd = userfault_.fd(), .events = POLLIN, .revents = 0},
                     pollfd{.fd = stop_event_.get(), .events = POLLIN, .revents = 0}};
    const int ready = ::poll(waits.data(), waits.size(), -1);
    const bool closed = ready > 0 && ((waits[0].revents | waits[1].revents) & POLLNVAL) != 0;
    if ((ready < 0 && errno != EINTR) || closed) {
      end_run(
          fmt::format("page faults can be read no more: {}; ending the program before data is "
                      "lost",
                      ready < 0 ? std::strerror(errno) : "a file descriptor has been closed"));
    }
    read_once();
  }
}

void FaultReader::read_once() {
  std::array<uffd_msg, 64> events{};
  const std::size_t count = forks_.read(userfault_, events);
  const TimeNs at_ns = now_ns();
  bool faults = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (events[i].event != UFFD_EVENT_PAGEFAULT) {
      continue;
    }
    const auto& fault = events[i].arg.pagefault;
    const auto offset =
        fault.address - reinterpret_cast<std::uint64_t>(addresses_.base());  // NOLINT
    if (offset >= addresses_.bytes()) {
      end_run(
          "memory of Spillway's own has been touched that is not there, and nobody would answer; "
          "ending the program before data is lost");
    }
    const FaultRecord record{
        .block = static_cast<BlockId>(offset / kBlockBytes),
        .write = (fault.flags & (UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP)) != 0,
        .missing = (fault.flags & UFFD_PAGEFAULT_FLAG_WP) == 0,
        .page = static_cast<std::uint32_t>(offset % kBlockBytes / kPageBytes),
        .at_ns = at_ns};
    while (!queue_.push(record)) {
      wake_.call();
      std::this_thread::yield();
    }
    faults = true;
  }
  if (faults) {
    wake_.call();
  }
}

}  // namespace spillway::host
