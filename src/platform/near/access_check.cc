// See access_check.h.
#include "platform/near/access_check.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <mutex>

#include "base/mutex.h"
#include "platform/common/process/say.h"
#include "platform/near/memory/location.h"

namespace spillway::near {
namespace {

// Read by a signal handler, so without a lock.
struct Watched {
  std::atomic<Address> first{0};  // 0: nobody's place
  std::atomic<Bytes> bytes{0};
  std::atomic<std::uint32_t> channel{0};
};
constexpr std::size_t kWatchedMax = 256;
std::array<Watched, kWatchedMax> all_watched;
Mutex watched_mutex;  // of who writes them

struct sigaction fault_action_before {};

void explain(Address address) {
  for (const Watched& range : all_watched) {
    const Address first = range.first;
    if (first != 0 && address >= first && address - first < range.bytes) {
      // Without an allocation: the thread may be anywhere.
      std::array<char, 300> line{};
      const auto end = fmt::format_to_n(
          line.data(), line.size(),
          "the host touches {:#x}, which is byte {} of channel {} of the near memory, while that "
          "channel is in acceleration mode; wait for its kernels and set it to normal mode first",
          address, address - first, range.channel.load());
      say({line.data(), static_cast<std::size_t>(end.out - line.data())});
      return;
    }
  }
}

void on_fault(int signal, siginfo_t* about, void* context) {
  if (about->si_code > 0) {  // not sent by a process
    explain(address_of(about->si_addr));
  }
  const struct sigaction& before = fault_action_before;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, about, context);
  } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
    // The access is repeated when this returns, and ends the process as it would have before.
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(signal, &standard, nullptr);
    if (about->si_code <= 0) {
      (void)::raise(signal);
    }
  } else {
    before.sa_handler(signal);
  }
}

void handle_faults() {
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGSEGV, &ours, &fault_action_before);
}

}  // namespace

WatchedRange::WatchedRange(const void* start, Bytes bytes, std::uint32_t channel)
    : place_(kWatchedMax) {
  static std::once_flag handled;
  std::call_once(handled, handle_faults);
  const MutexLock lock(watched_mutex);
  for (std::size_t place = 0; place < kWatchedMax; ++place) {
    if (all_watched[place].first == 0) {
      all_watched[place].bytes = bytes;
      all_watched[place].channel = channel;
      all_watched[place].first = address_of(start);
      place_ = place;
      return;
    }
  }
}

WatchedRange::~WatchedRange() {
  if (place_ < kWatchedMax) {
    const MutexLock lock(watched_mutex);
    all_watched[place_].first = 0;
  }
}

}  // namespace spillway::near
