// Handlers that need memory which is not there, at any time: they run on a stack of their own, which
// is large memory, and is given back or pushed out all the while; and they write into a large log,
// as profilers do.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "stranger.h"

enum { kBallast = 10 };
static const size_t kStack = 4 << 20, kLog = 16 << 20;
static char* ballast[kBallast];
static volatile char* log_of_ticks;
static volatile size_t ticks;

static void tick(int signal) {
  volatile char frame[100000];
  for (size_t at = 0; at < sizeof(frame); at += PAGE) frame[at] = (char)signal;
  log_of_ticks[ticks * 64 % kLog] = 1;
  ++ticks;
}

static void* map(size_t bytes) {
  void* const start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(start != MAP_FAILED);
  return start;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(void) {
  for (int i = 0; i < kBallast; ++i) {
    expect((ballast[i] = malloc(8 * MIB)) != NULL);
    fill(ballast[i], 8 * MIB, (uint64_t)i);
  }
  log_of_ticks = map(kLog);
  const stack_t stack = {.ss_sp = map(kStack), .ss_size = kStack};
  expect(sigaltstack(&stack, NULL) == 0);
  struct sigaction action = {.sa_handler = tick, .sa_flags = SA_ONSTACK | SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &often, NULL);
  const double end = seconds() + 2;
  for (int round = 0; seconds() < end || ticks < 50; ++round) {
    expect(madvise(stack.ss_sp, kStack, MADV_DONTNEED) == 0);
    for (int i = 0; i < 20; ++i) {
      char* const some = malloc(3 * MIB);
      expect(some != NULL);
      some[round % (3 * MIB)] = 1;
      free(some);
    }
    if (round % 64 == 0) {
      const pid_t child = fork();
      if (child == 0) {
        sigset_t kept;
        expect(pthread_sigmask(SIG_SETMASK, NULL, &kept) == 0 && !sigismember(&kept, SIGALRM));
        _exit(ballast[3][0] == (char)word_at(3, 0) ? 0 : 1);
      }
      int status = 0;
      expect(waitpid(child, &status, 0) == child && status == 0);
      expect(wrong(ballast[round / 64 % kBallast], 8 * MIB, (uint64_t)(round / 64 % kBallast)) == 0);
    }
  }
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  sigset_t blocked;
  expect(pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0 && !sigismember(&blocked, SIGALRM));
  for (int i = 0; i < kBallast; ++i) expect(wrong(ballast[i], 8 * MIB, (uint64_t)i) == 0);
  puts("all there");
  return 0;
}
