// What stands behind this library in the program's order of lookup: the allocator that the program
// would have without us, be it the C library's, jemalloc or any other. Whatever is not the space's
// is that one's, from its birth to its end. Layer: interpose, host.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#include "interpose/host/process/bare_call.h"

namespace spillway::preload {

struct NextAllocator {
  void* (*malloc)(std::size_t bytes) = nullptr;
  void (*free)(void* start) = nullptr;
  void* (*calloc)(std::size_t count, std::size_t bytes) = nullptr;
  void* (*realloc)(void* start, std::size_t bytes) = nullptr;
  void* (*memalign)(std::size_t alignment, std::size_t bytes) = nullptr;
  void* (*aligned_alloc)(std::size_t alignment, std::size_t bytes) = nullptr;
  int (*posix_memalign)(void** start, std::size_t alignment, std::size_t bytes) = nullptr;
  std::size_t (*malloc_usable_size)(void* start) = nullptr;
};

// Found at the first call. While it is being found, which may itself allocate, the functions give
// pieces of a small store that nobody takes back. Safe inside malloc.
[[nodiscard]] const NextAllocator& next_allocator();
// Where another library, or the program, has a function of this name; nullptr: nowhere.
[[nodiscard]] void* next_function(const char* name);
template <typename Function>
[[nodiscard]] Function next(const char* name) {
  return reinterpret_cast<Function>(next_function(name));  // NOLINT: as dlsym has it
}
// Looks up what threads of ours call as well, so that they need not: who asks the dynamic linker
// waits until no library is being loaded, and the thread that loads one may be waiting for ours.
// Only the first call does anything.
void find_next_functions();

// Finds out who allocates for the program; before that nobody is an allocator. Only the first call
// does anything, before the program begins.
void look_for_allocators();
// Whether code at this address is part of an allocator that is not the C library's. What it maps
// is its heap, and it may hold any lock of its own meanwhile.
[[nodiscard]] bool in_allocator(const void* code);

inline void* real_mmap(void* start, std::size_t bytes, int protection, int flags, int fd,
                       off_t offset) {
  return reinterpret_cast<void*>(  // NOLINT
      bare_call(SYS_mmap, start, bytes, protection, flags, fd, offset));
}
inline int real_munmap(void* start, std::size_t bytes) {
  return static_cast<int>(bare_call(SYS_munmap, start, bytes));
}
inline void* real_mremap(void* start, std::size_t old_bytes, std::size_t bytes, int flags,
                         void* to) {
  return reinterpret_cast<void*>(  // NOLINT
      bare_call(SYS_mremap, start, old_bytes, bytes, flags, to));
}
inline int real_madvise(void* start, std::size_t bytes, int advice) {
  return static_cast<int>(bare_call(SYS_madvise, start, bytes, advice));
}

}  // namespace spillway::preload
