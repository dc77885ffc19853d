// What glibc 2.28 has not, or has under an older version, and what is linked wants: defined here,
// and seen nowhere else. Only in the portable build (cmake/Portable.cmake). Layer: portable.
//
// Each is weak: a library that has its own keeps it. Not hidden, or that one would be as well; what
// a library shows is in its exports.map.
#include "portable/old_glibc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <ctime>

namespace {

// The C library's own pthread_cond_clockwait (2.30), where it has one. Found while this is loaded:
// later, whoever loads another library may be waiting for the thread that asks.
using ClockWait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
ClockWait own_clock_wait = nullptr;
__attribute__((constructor)) void find_clock_wait() {
  own_clock_wait = reinterpret_cast<ClockWait>(  // NOLINT: as dlsym has it
      ::dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
}

// Else a wait until the same moment by the time of day. If somebody sets that meanwhile, it ends
// too early or too late.
int wait_by_time_of_day(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                        const timespec* until) {
  timespec there{};
  timespec here{};
  ::clock_gettime(clock, &there);
  ::clock_gettime(CLOCK_REALTIME, &here);
  constexpr long kSecondNs = 1'000'000'000;
  timespec moved{until->tv_sec - there.tv_sec + here.tv_sec,
                 until->tv_nsec - there.tv_nsec + here.tv_nsec};
  for (; moved.tv_nsec < 0; moved.tv_nsec += kSecondNs) --moved.tv_sec;
  for (; moved.tv_nsec >= kSecondNs; moved.tv_nsec -= kSecondNs) ++moved.tv_sec;
  return ::pthread_cond_timedwait(condition, mutex, &moved);
}

// Not by `syscall`, which the preloaded library stands in front of.
long system_call(long number, long first = 0, long second = 0, long third = 0) {
  long result = number;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(first), "S"(second), "d"(third)
                   : "rcx", "r11", "memory");
  return result;
}

}  // namespace

#define SPILLWAY_OLD_GLIBC __attribute__((visibility("hidden")))

extern "C" {
// The C library's names and the linker's. NOLINTBEGIN(bugprone-reserved-identifier)

// The standard library asks for it before it leaves out atomic instructions. It never may.
SPILLWAY_OLD_GLIBC char __libc_single_threaded = 0;  // 2.32

SPILLWAY_OLD_GLIBC pid_t gettid() noexcept {  // 2.30
  return static_cast<pid_t>(system_call(SYS_gettid));
}

__attribute__((weak)) int close_range(unsigned first, unsigned last, int flags) noexcept {  // 2.34
  const long result = system_call(SYS_close_range, first, last, flags);
  if (result < 0) {
    errno = static_cast<int>(-result);
  }
  return result < 0 ? -1 : 0;
}

SPILLWAY_OLD_GLIBC int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                              clockid_t clock, const timespec* until) {  // 2.30
  const auto wait = own_clock_wait != nullptr ? own_clock_wait : &wait_by_time_of_day;
  return wait(condition, mutex, clock, until);
}

// The linker has calls of these come here (--wrap). Those of 2.29 differ only in what errno is
// told.
#define SPILLWAY_OLD_NAME(name) __asm__(".symver old_" #name ", " #name "@GLIBC_2.2.5")
SPILLWAY_OLD_NAME(exp);
SPILLWAY_OLD_NAME(exp2);
SPILLWAY_OLD_NAME(log);
SPILLWAY_OLD_NAME(log2);
SPILLWAY_OLD_NAME(pow);
double old_exp(double);
double old_exp2(double);
double old_log(double);
double old_log2(double);
double old_pow(double, double);
SPILLWAY_OLD_GLIBC double __wrap_exp(double x) { return old_exp(x); }
SPILLWAY_OLD_GLIBC double __wrap_exp2(double x) { return old_exp2(x); }
SPILLWAY_OLD_GLIBC double __wrap_log(double x) { return old_log(x); }
SPILLWAY_OLD_GLIBC double __wrap_log2(double x) { return old_log2(x); }
SPILLWAY_OLD_GLIBC double __wrap_pow(double x, double y) { return old_pow(x, y); }

// NOLINTEND(bugprone-reserved-identifier)
}  // extern "C"
