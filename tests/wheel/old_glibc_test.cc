// What src/portable/old_glibc.cc stands in for does what the C library's own does. A program by
// itself, which test_wheel.py compiles: exit status 0, or a line that says what is wrong.
#include "portable/old_glibc.cc"  // NOLINT: also what nobody else sees

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

void expect(bool fine, const char* what) {
  if (!fine) {
    std::fprintf(stderr, "old_glibc_test: %s\n", what);
    std::exit(1);
  }
}

long now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void expect_to_wait(ClockWait wait, const char* what) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  ::pthread_mutex_lock(&mutex);
  // A whole second, so that carrying from nanoseconds is needed in one of the two.
  for (const long wait_ns : {30'000'000L, 999'999'999L}) {
    const long begun_ns = now_ns();
    const long until_ns = begun_ns + wait_ns;
    const timespec until{until_ns / 1'000'000'000, until_ns % 1'000'000'000};
    expect(wait(&condition, &mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT, what);
    const long waited_ns = now_ns() - begun_ns;
    // The two clocks are read one after the other.
    expect(waited_ns > wait_ns - 5'000'000 && waited_ns < wait_ns + 20'000'000'000, what);
  }
  ::pthread_mutex_unlock(&mutex);
}

}  // namespace

int main() {
  expect(own_clock_wait != nullptr && own_clock_wait != &pthread_cond_clockwait,
         "the C library's own pthread_cond_clockwait is not found");
  expect_to_wait(&pthread_cond_clockwait, "pthread_cond_clockwait does not wait");
  expect_to_wait(&wait_by_time_of_day, "wait_by_time_of_day does not wait");
  expect(gettid() == ::getpid(), "gettid is wrong");

  const int fd = ::dup(1);
  expect(close_range(static_cast<unsigned>(fd), static_cast<unsigned>(fd), 0) == 0 &&
             ::write(fd, "", 0) == -1 && errno == EBADF,
         "close_range closes nothing");
  errno = 0;
  expect(close_range(2, 1, 0) == -1 && errno == EINVAL, "close_range takes what is wrong");

  for (const double x : {0.3, 1.0, 2.5, 17.0, 700.0}) {
    expect(__wrap_exp(x) == std::exp(x) && __wrap_exp2(x) == std::exp2(x) &&
               __wrap_log(x) == std::log(x) && __wrap_log2(x) == std::log2(x) &&
               __wrap_pow(x, 1.7) == std::pow(x, 1.7),
           "a function of libm has another result");
  }
  return 0;
}
