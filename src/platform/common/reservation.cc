// See reservation.h.
#include "platform/common/reservation.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace spillway {

Result<Reservation> Reservation::make(Bytes bytes) {
  const Bytes mapping_bytes = bytes + kBlockBytes;  // to align it
  // By a bare system call: a library that is preloaded, such as ours in a `spillway run` inside
  // another, might take it into its own hands.
  void* const mapping =
      reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr): as the kernel has it
          ::syscall(SYS_mmap, nullptr, mapping_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (mapping == MAP_FAILED) {
    return make_error(ErrorCode::kUnsupported,
                      "cannot reserve {} of address space: {}; is there a limit (ulimit -v)?",
                      format_bytes(mapping_bytes), std::strerror(errno));
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
