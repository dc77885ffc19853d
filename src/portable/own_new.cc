// What our own code gets from `new`, where the standard library is linked in: the preloaded library
// defines the functions of these names for the program, and leads to the program's own. The linker
// has our calls come here (--wrap). Only in the portable build (cmake/Portable.cmake). Layer:
// portable.
#include <malloc.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  return alignment > alignof(std::max_align_t) ? ::memalign(alignment, bytes) : std::malloc(bytes);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment = 1) {
  void* const start = allocate(bytes, alignment);
  if (start == nullptr) {
    throw std::bad_alloc();
  }
  return start;
}

}  // namespace

// _Znwm and its kin, as C++ writes them: w one object, a an array.
// NOLINTBEGIN(bugprone-reserved-identifier)
#define SPILLWAY_OWN_NEW(kind)                                                                     \
  void* __wrap__Zn##kind##m(std::size_t bytes) { return allocate_or_throw(bytes); }                \
  void* __wrap__Zn##kind##mRKSt9nothrow_t(std::size_t bytes, const void* /*tag*/) noexcept {       \
    return allocate(bytes, 1);                                                                     \
  }                                                                                                \
  void* __wrap__Zn##kind##mSt11align_val_t(std::size_t bytes, std::size_t alignment) {             \
    return allocate_or_throw(bytes, alignment);                                                    \
  }                                                                                                \
  void* __wrap__Zn##kind##mSt11align_val_tRKSt9nothrow_t(std::size_t bytes, std::size_t alignment, \
                                                         const void* /*tag*/) noexcept {           \
    return allocate(bytes, alignment);                                                             \
  }
#define SPILLWAY_OWN_DELETE(kind)                                                                  \
  void __wrap__Zd##kind##Pv(void* start) noexcept { std::free(start); }                            \
  void __wrap__Zd##kind##Pvm(void* start, std::size_t /*bytes*/) noexcept { std::free(start); }    \
  void __wrap__Zd##kind##PvRKSt9nothrow_t(void* start, const void*) noexcept { std::free(start); } \
  void __wrap__Zd##kind##PvSt11align_val_t(void* start, std::size_t) noexcept {                    \
    std::free(start);                                                                              \
  }                                                                                                \
  void __wrap__Zd##kind##PvmSt11align_val_t(void* start, std::size_t, std::size_t) noexcept {      \
    std::free(start);                                                                              \
  }
extern "C" {
SPILLWAY_OWN_NEW(w)
SPILLWAY_OWN_NEW(a)
SPILLWAY_OWN_DELETE(l)
SPILLWAY_OWN_DELETE(a)
}
// NOLINTEND(bugprone-reserved-identifier)
