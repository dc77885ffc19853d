// malloc and its family, and anonymous mmap, in front of the C library's: what is large goes into
// the space, everything else where it always went. Layer: front, preload.
// Nothing here may be called by the thread that is making the space, nor by the space's own
// threads: those are "in service" and always get the C library's memory.
#include <dlfcn.h>
#include <malloc.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include "front/preload/real.h"
#include "front/preload/session.h"
#include "platform/common/say.h"
#include "platform/common/service_thread.h"

namespace spillway::preload {
namespace {

constexpr std::size_t kLargestAlignment = kBlockBytes;

// Memory from the space, or nullptr: `refused` tells whether that means "out of memory" or "not
// ours".
void* take(std::size_t bytes, std::size_t alignment, bool zeroed, bool& refused) {
  refused = false;
  if (bytes < threshold_bytes() || alignment > kLargestAlignment || in_service()) {
    return nullptr;
  }
  Session* const here = session(true);
  if (here == nullptr) {
    return nullptr;
  }
  void* start = nullptr;
  bool zeros = zeroed;
  {
    const InService inside;
    Error error;
    start = here->heap->allocate(bytes, asker(), zeros, error);
    if (start == nullptr) {
      say(error.message);
      refused = true;
      errno = ENOMEM;
      return nullptr;
    }
  }
  if (zeroed && !zeros) {
    std::memset(start, 0, bytes);  // by the program's thread, which may fault
  }
  return start;
}

void* allocate(std::size_t bytes, std::size_t alignment, bool zeroed) {
  bool refused = false;
  void* const start = take(bytes, alignment, zeroed, refused);
  if (start != nullptr || refused) {
    return start;
  }
  if (zeroed) {
    return __libc_calloc(1, bytes);
  }
  return alignment <= alignof(std::max_align_t) ? __libc_malloc(bytes)
                                                : __libc_memalign(alignment, bytes);
}

void give_back(void* start) {
  if (!in_space(start)) {
    __libc_free(start);
    return;
  }
  // In the child of a fork the space is the parent's: what the child has of it goes with the child.
  if (Session* const here = session(false)) {
    const InService inside;
    here->heap->free(start);
  }
}

// Whether `bytes` from there on are all of an allocation.
bool fills(void* start, std::size_t bytes) {
  const std::size_t all = usable_bytes(start);
  return all > 0 && LargeHeap::size_of(bytes) == all;
}

bool overflows(std::size_t count, std::size_t bytes) {
  std::size_t product = 0;
  return __builtin_mul_overflow(count, bytes, &product);
}

}  // namespace
}  // namespace spillway::preload

namespace pre = spillway::preload;

extern "C" {

using UsableSize = std::size_t (*)(void*);

void* malloc(std::size_t bytes) { return pre::allocate(bytes, 1, false); }

void free(void* start) {
  if (start != nullptr) {
    pre::give_back(start);
  }
}

void* calloc(std::size_t count, std::size_t bytes) {
  if (pre::overflows(count, bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  const std::size_t total = count * bytes;
  return total < pre::threshold_bytes() ? __libc_calloc(count, bytes)
                                        : pre::allocate(total, 1, true);
}

void* realloc(void* start, std::size_t bytes) {
  if (start == nullptr) {
    return malloc(bytes);
  }
  if (!pre::in_space(start)) {
    if (bytes < pre::threshold_bytes() || spillway::in_service()) {
      return __libc_realloc(start, bytes);
    }
    // It grows into the space, or stays where it is if there is no space.
    const std::size_t old_bytes = malloc_usable_size(start);
    bool refused = false;
    void* const moved = pre::take(bytes, 1, false, refused);
    if (moved == nullptr) {
      return refused ? nullptr : __libc_realloc(start, bytes);
    }
    std::memcpy(moved, start, old_bytes < bytes ? old_bytes : bytes);
    __libc_free(start);
    return moved;
  }
  if (bytes == 0) {
    free(start);
    return nullptr;
  }
  const std::size_t old_bytes = pre::usable_bytes(start);
  if (bytes <= old_bytes && bytes >= old_bytes / 2) {
    return start;
  }
  void* const moved = malloc(bytes);
  if (moved != nullptr) {
    std::memcpy(moved, start, old_bytes < bytes ? old_bytes : bytes);
    free(start);
  }
  return moved;
}

void* reallocarray(void* start, std::size_t count, std::size_t bytes) {
  if (pre::overflows(count, bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(start, count * bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  return pre::allocate(bytes, alignment, false);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return pre::allocate(bytes, alignment, false);
}

int posix_memalign(void** start, std::size_t alignment, std::size_t bytes) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) {
    return EINVAL;
  }
  const int before = errno;
  void* const memory = pre::allocate(bytes, alignment, false);
  errno = before;
  if (memory == nullptr) {
    return ENOMEM;
  }
  *start = memory;
  return 0;
}

void* valloc(std::size_t bytes) { return pre::allocate(bytes, spillway::kPageBytes, false); }

void* pvalloc(std::size_t bytes) {
  return pre::allocate(spillway::round_up(bytes, spillway::kPageBytes), spillway::kPageBytes,
                       false);
}

std::size_t malloc_usable_size(void* start) {
  if (start != nullptr && pre::in_space(start)) {
    return pre::usable_bytes(start);
  }
  static const auto real = reinterpret_cast<UsableSize>(  // NOLINT
      dlsym(RTLD_NEXT, "malloc_usable_size"));
  return real == nullptr ? 0 : real(start);
}

void* mmap(void* start, std::size_t bytes, int protection, int flags, int fd, off_t offset) {
  constexpr int kPlain = MAP_PRIVATE | MAP_ANONYMOUS;
  // Arenas of interpreters (Python's are 1 MiB) are full of small objects in constant use.
  const bool plain = start == nullptr && bytes >= spillway::kBlockBytes &&
                     (flags & ~(MAP_NORESERVE | MAP_POPULATE)) == kPlain &&
                     protection == (PROT_READ | PROT_WRITE);
  if (plain) {
    bool refused = false;
    void* const memory = pre::take(bytes, spillway::kPageBytes, true, refused);
    if (memory != nullptr || refused) {
      return memory == nullptr ? MAP_FAILED : memory;
    }
  }
  return pre::real_mmap(start, bytes, protection, flags, fd, offset);
}

void* mmap64(void* start, std::size_t bytes, int protection, int flags, int fd, off_t offset) {
  return mmap(start, bytes, protection, flags, fd, offset);
}

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
