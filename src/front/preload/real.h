// The C library's own allocation functions, under the names that survive interposition.
// Layer: front, preload.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

extern "C" {
void* __libc_malloc(std::size_t bytes);                           // NOLINT
void __libc_free(void* start);                                    // NOLINT
void* __libc_calloc(std::size_t count, std::size_t bytes);        // NOLINT
void* __libc_realloc(void* start, std::size_t bytes);             // NOLINT
void* __libc_memalign(std::size_t alignment, std::size_t bytes);  // NOLINT
}

namespace spillway::preload {

inline void* real_mmap(void* start, std::size_t bytes, int protection, int flags, int fd,
                       off_t offset) {
  return reinterpret_cast<void*>(  // NOLINT
      syscall(SYS_mmap, start, bytes, protection, flags, fd, offset));
}
inline int real_munmap(void* start, std::size_t bytes) {
  return static_cast<int>(syscall(SYS_munmap, start, bytes));
}
inline void* real_mremap(void* start, std::size_t old_bytes, std::size_t bytes, int flags,
                         void* to) {
  return reinterpret_cast<void*>(  // NOLINT
      syscall(SYS_mremap, start, old_bytes, bytes, flags, to));
}
inline int real_madvise(void* start, std::size_t bytes, int advice) {
  return static_cast<int>(syscall(SYS_madvise, start, bytes, advice));
}

}  // namespace spillway::preload
