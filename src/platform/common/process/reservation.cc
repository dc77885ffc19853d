// See reservation.h.
#include "platform/common/process/reservation.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <utility>

#include "base/sanitizers.h"

namespace spillway {
namespace {

// By a bare system call: a library that is preloaded, such as ours in a `spillway run` inside
// another, might take it into its own hands.
void* map(Bytes bytes) {
#if SPILLWAY_THREAD_SANITIZER
  // ThreadSanitizer has to see that what lay here before, a stack say, is gone.
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
#else
  return reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr): as the kernel has it
      ::syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
#endif
}

// What can be had in one piece, where `bytes` cannot: found by trying.
Bytes largest_bytes(Bytes bytes) {
  Bytes had_bytes = 0;
  for (Bytes step_bytes = bytes / 2; step_bytes >= kBlockBytes; step_bytes /= 2) {
    void* const mapping = map(had_bytes + step_bytes);
    if (mapping != MAP_FAILED) {
      ::munmap(mapping, had_bytes + step_bytes);
      had_bytes += step_bytes;
    }
  }
  return had_bytes;
}

Error too_many(Bytes bytes) {
  Error error{ErrorCode::kUnsupported,
              fmt::format("{} of addresses are needed in one piece, and {} can be had: ",
                          format_bytes(bytes), format_bytes(largest_bytes(bytes)))};
  rlimit limit{};
  int overcommit = 0;
  std::ifstream("/proc/sys/vm/overcommit_memory") >> overcommit;
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    error.message += "`ulimit -v unlimited` lifts the limit for this shell";
  } else if (::getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    error.message += "`ulimit -d unlimited` lifts the limit for this shell";
  } else if (overcommit == 2) {
    error.message += "`sysctl vm.overcommit_memory=0` as root permits more";
  } else {
    error.code = ErrorCode::kInvalidInput;
    error.message += "ask for less";
  }
  return error;
}

}  // namespace

Result<Reservation> Reservation::make(Bytes bytes) {
  const Bytes mapping_bytes = bytes + kBlockBytes;  // to align it
  void* const mapping = map(mapping_bytes);
  if (mapping == MAP_FAILED) {
    return tl::unexpected<Error>(too_many(mapping_bytes));
  }
  void* aligned = mapping;
  std::size_t space = mapping_bytes;
  auto* const start = static_cast<char*>(std::align(kBlockBytes, bytes, aligned, space));
  return Reservation(mapping, mapping_bytes, start, bytes);
}

Reservation::Reservation(Reservation&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(other.mapping_bytes_),
      start_(other.start_),
      bytes_(other.bytes_) {}

Reservation::~Reservation() {
  if (mapping_ != nullptr) {
    ::munmap(mapping_, mapping_bytes_);
  }
}

}  // namespace spillway
