// malloc and its family in front of the allocator that the program would have without us: what is
// large goes into the space, everything else where it always went. Layer: interpose, host.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "interpose/host/next.h"
#include "interpose/host/session.h"
#include "interpose/host/take.h"
#include "platform/common/process/service_thread.h"

namespace spillway::preload {
namespace {

bool overflows(std::size_t count, std::size_t bytes) {
  std::size_t product = 0;
  return __builtin_mul_overflow(count, bytes, &product);
}

bool power_of_two(std::size_t number) { return number != 0 && (number & (number - 1)) == 0; }

// It grows into the space, or stays where it is if there is no space.
void* grow_into_space(void* start, std::size_t bytes) {
  bool refused = false;
  void* const moved = take_with_room(bytes, refused);
  if (moved == nullptr) {
    return refused ? nullptr : next_allocator().realloc(start, bytes);
  }
  std::memcpy(moved, start, std::min(bytes, next_allocator().malloc_usable_size(start)));
  next_allocator().free(start);
  return moved;
}

}  // namespace
}  // namespace spillway::preload

namespace pre = spillway::preload;

extern "C" {

void* malloc(std::size_t bytes) {
  bool refused = false;
  void* const start = pre::take(bytes, 1, false, refused);
  return start != nullptr || refused ? start : pre::next_allocator().malloc(bytes);
}

void free(void* start) {
  if (start == nullptr) {
    return;
  }
  if (pre::in_space(start)) {
    pre::give_back(start);
  } else {
    pre::next_allocator().free(start);
  }
}

void* calloc(std::size_t count, std::size_t bytes) {
  if (pre::overflows(count, bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  bool refused = false;
  void* const start = pre::take(count * bytes, 1, true, refused);
  return start != nullptr || refused ? start : pre::next_allocator().calloc(count, bytes);
}

void* realloc(void* start, std::size_t bytes) {
  if (start == nullptr) {
    return malloc(bytes);
  }
  if (!pre::in_space(start)) {
    return bytes < pre::threshold_bytes() || spillway::in_service()
               ? pre::next_allocator().realloc(start, bytes)
               : pre::grow_into_space(start, bytes);
  }
  if (bytes == 0) {
    free(start);
    return nullptr;
  }
  const std::size_t old_bytes = pre::usable_bytes(start);
  if ((bytes <= old_bytes && bytes >= old_bytes / 2) ||
      (bytes > old_bytes && pre::grow(start, bytes))) {
    return start;
  }
  bool refused = false;
  void* moved = bytes > old_bytes ? pre::take_with_room(bytes, refused) : nullptr;
  if (moved == nullptr && !refused) {
    moved = malloc(bytes);
  }
  if (moved != nullptr) {
    pre::move_over(moved, start, old_bytes < bytes ? old_bytes : bytes);
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
  bool refused = false;
  void* const start = pre::take(bytes, alignment, false, refused);
  return start != nullptr || refused ? start : pre::next_allocator().memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  bool refused = false;
  void* const start = pre::take(bytes, alignment, false, refused);
  return start != nullptr || refused ? start
                                     : pre::next_allocator().aligned_alloc(alignment, bytes);
}

int posix_memalign(void** start, std::size_t alignment, std::size_t bytes) {
  if (alignment < sizeof(void*) || !pre::power_of_two(alignment)) {
    return EINVAL;
  }
  const int before = errno;
  bool refused = false;
  void* const memory = pre::take(bytes, alignment, false, refused);
  errno = before;
  if (memory == nullptr) {
    return refused ? ENOMEM : pre::next_allocator().posix_memalign(start, alignment, bytes);
  }
  *start = memory;
  return 0;
}

void* valloc(std::size_t bytes) { return memalign(spillway::kPageBytes, bytes); }

void* pvalloc(std::size_t bytes) {
  if (bytes > SIZE_MAX - spillway::kPageBytes) {
    errno = ENOMEM;
    return nullptr;
  }
  return memalign(spillway::kPageBytes, spillway::round_up(bytes, spillway::kPageBytes));
}

std::size_t malloc_usable_size(void* start) {
  if (start == nullptr) {
    return 0;
  }
  return pre::in_space(start) ? pre::usable_bytes(start)
                              : pre::next_allocator().malloc_usable_size(start);
}
}
