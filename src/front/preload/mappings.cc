// Anonymous mappings, in front of the C library's calls: what is large and plain goes into the
// space, and what programs do to mappings is done to what lies there. Layer: front, preload.
#include <sys/mman.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "front/preload/next.h"
#include "front/preload/session.h"
#include "front/preload/take.h"
#include "platform/common/service_thread.h"

namespace spillway::preload {
namespace {

// Whether `bytes` from there on are all of an allocation.
bool fills(void* start, std::size_t bytes) {
  const std::size_t all = usable_bytes(start);
  return all > 0 && LargeHeap::size_of(bytes) == all;
}

}  // namespace
}  // namespace spillway::preload

namespace pre = spillway::preload;

extern "C" {

void* mmap(void* start, std::size_t bytes, int protection, int flags, int fd, off_t offset) {
  constexpr int kPlain = MAP_PRIVATE | MAP_ANONYMOUS;
  // Arenas of interpreters (Python's are 1 MiB) are full of small objects in constant use.
  const bool plain = start == nullptr && bytes >= spillway::kBlockBytes &&
                     (flags & ~(MAP_NORESERVE | MAP_POPULATE)) == kPlain &&
                     protection == (PROT_READ | PROT_WRITE) &&
                     !pre::in_allocator(__builtin_return_address(0));
  if (plain) {
    bool refused = false;
    void* const memory = pre::take(bytes, spillway::kPageBytes, true, refused);
    if (memory != nullptr || refused) {
      return memory == nullptr ? MAP_FAILED : memory;
    }
  }
  return pre::real_mmap(start, bytes, protection, flags, fd, offset);
}

void* mmap64(void*, std::size_t, int, int, int, off_t) __attribute__((alias("mmap")));

int munmap(void* start, std::size_t bytes) {
  if (!pre::in_space(start)) {
    return pre::real_munmap(start, bytes);
  }
  // A part of a mapping stays: nobody can tell, but by a fault that it must not rely on.
  if (start != nullptr && bytes > 0 && pre::fills(start, bytes)) {
    pre::give_back(start);
  }
  return 0;
}

void* mremap(void* start, std::size_t old_bytes, std::size_t bytes, int flags, ...) {
  va_list more;
  va_start(more, flags);
  void* const to = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void*) : nullptr;
  va_end(more);
  if (!pre::in_space(start)) {
    return pre::real_mremap(start, old_bytes, bytes, flags, to);
  }
  if (bytes <= old_bytes) {
    return start;
  }
  if ((flags & MREMAP_MAYMOVE) == 0 || to != nullptr) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void* const moved =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (moved != MAP_FAILED) {
    std::memcpy(moved, start, old_bytes);
    munmap(start, old_bytes);
  }
  return moved;
}

// Advice about the space is the space's affair, but "these pages are zeros from now on" is a
// promise to the program.
int madvise(void* start, std::size_t bytes, int advice) {
  if (!pre::in_space(start) || spillway::in_service()) {
    return pre::real_madvise(start, bytes, advice);
  }
  if (advice == MADV_DONTNEED) {
    std::memset(start, 0, bytes);
  }
  return 0;
}
}
