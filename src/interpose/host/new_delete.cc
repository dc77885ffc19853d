// C++'s own allocation functions, where an allocator brings its own (tcmalloc, jemalloc): they do
// not pass by malloc. libstdc++'s do, and are left alone. Layer: interpose, host.
#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "interpose/host/next.h"
#include "interpose/host/session.h"
#include "interpose/host/take.h"
#include "platform/common/process/service_thread.h"

namespace spillway::preload {
namespace {

// More than anybody has: the allocator then does what it does when memory is short, and calls the
// program's handler or throws in the program's own terms.
constexpr std::size_t kTooMuch = PTRDIFF_MAX;

// A function that stands behind ours, found when it is called first: not by threads of ours, as the
// program may be loading a library and wait for them. They have what malloc gives.
template <typename Function>
class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}

  template <typename... More>
  void* allocate(std::size_t bytes, std::size_t alignment, More... more) {
    if (in_service()) {
      return alignment > alignof(std::max_align_t) ? next_allocator().memalign(alignment, bytes)
                                                   : next_allocator().malloc(bytes);
    }
    const Function function = found();
    if (function == nullptr) {
      return alignment > alignof(std::max_align_t) ? ::memalign(alignment, bytes) : ::malloc(bytes);
    }
    if (bytes >= threshold_bytes() &&
        in_allocator(reinterpret_cast<const void*>(function))) {  // NOLINT
      bool refused = false;
      void* const start = take(bytes, alignment, false, refused);
      if (start != nullptr || refused) {
        return refused ? function(kTooMuch, more...) : start;
      }
    }
    return function(bytes, more...);
  }
  template <typename... More>
  void free(void* start, More... more) {
    if (start != nullptr && in_space(start)) {
      give_back(start);
    } else if (in_service()) {
      next_allocator().free(start);
    } else if (const Function function = found(); function != nullptr) {
      function(start, more...);
    } else {
      ::free(start);
    }
  }

 private:
  // Null where no standard library is to be found, and whoever calls has one of another kind.
  Function found() {
    Function function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) {
      function = reinterpret_cast<Function>(next_function(name_));  // NOLINT: as dlsym has it
      function_.store(function, std::memory_order_relaxed);
    }
    return function;
  }

  const char* name_;
  std::atomic<Function> function_{nullptr};
};

using Align = std::align_val_t;
using NoThrow = const std::nothrow_t&;

std::size_t number_of(Align alignment) { return static_cast<std::size_t>(alignment); }

}  // namespace
}  // namespace spillway::preload

namespace pre = spillway::preload;

// NOLINTBEGIN(misc-new-delete-overloads,*-definitions-in-headers): all of them are here
void* operator new(std::size_t bytes) {
  static constinit pre::Next<void* (*)(std::size_t)> next("_Znwm");
  return next.allocate(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  static constinit pre::Next<void* (*)(std::size_t)> next("_Znam");
  return next.allocate(bytes, 1);
}
void* operator new(std::size_t bytes, pre::NoThrow tag) noexcept {
  static constinit pre::Next<void* (*)(std::size_t, const std::nothrow_t*)> next(
      "_ZnwmRKSt9nothrow_t");
  return next.allocate(bytes, 1, &tag);
}
void* operator new[](std::size_t bytes, pre::NoThrow tag) noexcept {
  static constinit pre::Next<void* (*)(std::size_t, const std::nothrow_t*)> next(
      "_ZnamRKSt9nothrow_t");
  return next.allocate(bytes, 1, &tag);
}
void* operator new(std::size_t bytes, pre::Align alignment) {
  static constinit pre::Next<void* (*)(std::size_t, pre::Align)> next("_ZnwmSt11align_val_t");
  return next.allocate(bytes, pre::number_of(alignment), alignment);
}
void* operator new[](std::size_t bytes, pre::Align alignment) {
  static constinit pre::Next<void* (*)(std::size_t, pre::Align)> next("_ZnamSt11align_val_t");
  return next.allocate(bytes, pre::number_of(alignment), alignment);
}
void* operator new(std::size_t bytes, pre::Align alignment, pre::NoThrow tag) noexcept {
  static constinit pre::Next<void* (*)(std::size_t, pre::Align, const std::nothrow_t*)> next(
      "_ZnwmSt11align_val_tRKSt9nothrow_t");
  return next.allocate(bytes, pre::number_of(alignment), alignment, &tag);
}
void* operator new[](std::size_t bytes, pre::Align alignment, pre::NoThrow tag) noexcept {
  static constinit pre::Next<void* (*)(std::size_t, pre::Align, const std::nothrow_t*)> next(
      "_ZnamSt11align_val_tRKSt9nothrow_t");
  return next.allocate(bytes, pre::number_of(alignment), alignment, &tag);
}

void operator delete(void* start) noexcept {
  static constinit pre::Next<void (*)(void*)> next("_ZdlPv");
  next.free(start);
}
void operator delete[](void* start) noexcept {
  static constinit pre::Next<void (*)(void*)> next("_ZdaPv");
  next.free(start);
}
void operator delete(void* start, std::size_t bytes) noexcept {
  static constinit pre::Next<void (*)(void*, std::size_t)> next("_ZdlPvm");
  next.free(start, bytes);
}
void operator delete[](void* start, std::size_t bytes) noexcept {
  static constinit pre::Next<void (*)(void*, std::size_t)> next("_ZdaPvm");
  next.free(start, bytes);
}
void operator delete(void* start, pre::NoThrow tag) noexcept {
  static constinit pre::Next<void (*)(void*, const std::nothrow_t*)> next("_ZdlPvRKSt9nothrow_t");
  next.free(start, &tag);
}
void operator delete[](void* start, pre::NoThrow tag) noexcept {
  static constinit pre::Next<void (*)(void*, const std::nothrow_t*)> next("_ZdaPvRKSt9nothrow_t");
  next.free(start, &tag);
}
void operator delete(void* start, pre::Align alignment) noexcept {
  static constinit pre::Next<void (*)(void*, pre::Align)> next("_ZdlPvSt11align_val_t");
  next.free(start, alignment);
}
void operator delete[](void* start, pre::Align alignment) noexcept {
  static constinit pre::Next<void (*)(void*, pre::Align)> next("_ZdaPvSt11align_val_t");
  next.free(start, alignment);
}
void operator delete(void* start, std::size_t bytes, pre::Align alignment) noexcept {
  static constinit pre::Next<void (*)(void*, std::size_t, pre::Align)> next(
      "_ZdlPvmSt11align_val_t");
  next.free(start, bytes, alignment);
}
void operator delete[](void* start, std::size_t bytes, pre::Align alignment) noexcept {
  static constinit pre::Next<void (*)(void*, std::size_t, pre::Align)> next(
      "_ZdaPvmSt11align_val_t");
  next.free(start, bytes, alignment);
}
// NOLINTEND(misc-new-delete-overloads,*-definitions-in-headers)
