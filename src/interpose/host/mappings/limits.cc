// See limits.h. In front of the C library's calls; by their numbers: system_calls.cc.
#include "interpose/host/mappings/limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "base/units.h"
#include "interpose/host/process/bare_call.h"
#include "platform/common/process/service_thread.h"

namespace spillway::preload {
namespace {

std::atomic<rlim_t> taken_bytes{0};
std::atomic<bool> addresses_limited{false};  // by the program itself, of whichever kind
std::atomic<bool> data_limited{false};

// Null where the limit is not one of addresses.
std::atomic<bool>* limited(int resource) {
  return resource == RLIMIT_AS     ? &addresses_limited
         : resource == RLIMIT_DATA ? &data_limited
                                   : nullptr;
}

rlim_t raised(rlim_t limit) {
  return limit > RLIM_INFINITY - taken_bytes ? RLIM_INFINITY : limit + taken_bytes;
}

rlim_t lowered(rlim_t limit) {
  return limit == RLIM_INFINITY ? limit : limit - std::min<rlim_t>(limit, taken_bytes);
}

}  // namespace

std::size_t mapped_bytes() {
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  std::array<char, 32> text{};
  const bool there = file >= 0 && ::read(file, text.data(), text.size() - 1) > 0;
  ::close(file);
  return there ? std::strtoul(text.data(), nullptr, 10) * kPageBytes : 0;
}

void space_takes(std::size_t bytes) { taken_bytes = bytes; }

std::size_t limit_bytes() {
  std::size_t least = ~std::size_t{0};
  for (const int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (*limited(resource) && bare_call(SYS_prlimit64, 0, resource, nullptr, &limit) == 0) {
      least = std::min<std::size_t>(least, lowered(limit.rlim_cur));
    }
  }
  return least;
}

int limit_process(int process, int resource, const void* wanted, void* before) {
  const bool own = process == 0 || process == ::getpid();
  std::atomic<bool>* const by_program = limited(resource);
  if (!own || by_program == nullptr || in_service() || taken_bytes == 0) {
    return static_cast<int>(bare_call(SYS_prlimit64, process, resource, wanted, before));
  }
  rlimit was{};
  bare_call(SYS_prlimit64, 0, resource, nullptr, &was);
  const rlimit told =
      *by_program ? rlimit{.rlim_cur = lowered(was.rlim_cur), .rlim_max = lowered(was.rlim_max)}
                  : was;
  rlimit higher{};
  if (wanted != nullptr) {
    const auto& asked = *static_cast<const rlimit*>(wanted);
    higher = {.rlim_cur = raised(asked.rlim_cur), .rlim_max = raised(asked.rlim_max)};
    if (asked.rlim_cur <= asked.rlim_max &&
        asked.rlim_max <= told.rlim_max) {  // else: as privileged
      higher.rlim_max = std::min(higher.rlim_max, was.rlim_max);
      higher.rlim_cur = std::min(higher.rlim_cur, higher.rlim_max);
    }
  }
  const long answer =
      bare_call(SYS_prlimit64, process, resource, wanted == nullptr ? nullptr : &higher, nullptr);
  if (answer == 0 && before != nullptr) {
    *static_cast<rlimit*>(before) = told;
  }
  if (answer == 0 && wanted != nullptr) {
    *by_program = true;
  }
  return static_cast<int>(answer);
}

}  // namespace spillway::preload

namespace pre = spillway::preload;

static_assert(sizeof(rlimit) == sizeof(rlimit64));

extern "C" {

int setrlimit(__rlimit_resource_t resource, const rlimit* limits) noexcept {
  return pre::limit_process(0, static_cast<int>(resource), limits, nullptr);
}

int setrlimit64(__rlimit_resource_t resource, const rlimit64* limits) noexcept {
  return pre::limit_process(0, static_cast<int>(resource), limits, nullptr);
}

int getrlimit(__rlimit_resource_t resource, rlimit* limits) noexcept {
  return pre::limit_process(0, static_cast<int>(resource), nullptr, limits);
}

int getrlimit64(__rlimit_resource_t resource, rlimit64* limits) noexcept {
  return pre::limit_process(0, static_cast<int>(resource), nullptr, limits);
}

int prlimit(pid_t process, __rlimit_resource resource, const rlimit* wanted,
            rlimit* before) noexcept {
  return pre::limit_process(process, static_cast<int>(resource), wanted, before);
}

int prlimit64(pid_t process, __rlimit_resource resource, const rlimit64* wanted,
              rlimit64* before) noexcept {
  return pre::limit_process(process, static_cast<int>(resource), wanted, before);
}
}
