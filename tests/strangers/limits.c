// Programs that limit their own memory, when they have some already: what is within the limit is
// theirs, what is not is refused, and the limit is what they have set.
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stranger.h"

enum { kBallast = 10 };
static const size_t kBytes = 8 << 20;
static char* ballast[kBallast];

static void stir(uint64_t seed) {
  for (int i = 0; i < kBallast; ++i) {
    if (seed > 0) expect(wrong(ballast[i], kBytes, seed - 1 + (uint64_t)i) == 0);
    fill(ballast[i], kBytes, seed + (uint64_t)i);
  }
}

// As much stack as an ordinary thread may use, a page at a time.
static void* deep(void* unused) {
  volatile char frames[4 << 20];
  for (size_t at = 0; at < sizeof(frames); at += PAGE) frames[at] = 1;
  return unused;
}

static void within(uint64_t seed) {
  char* const large = malloc(48 * MIB);
  expect(large != NULL);
  fill(large, 48 * MIB, 9);
  for (int i = 0; i < 2000; ++i) {
    char* const small = malloc(20000);
    expect(small != NULL);
    memset(small, i, 20000);
  }
  pthread_t thread;
  expect(pthread_create(&thread, NULL, deep, NULL) == 0 && pthread_join(thread, NULL) == 0);
  deep(NULL);
  stir(seed);
  expect(wrong(large, 48 * MIB, 9) == 0);
  free(large);
}

int main(int argc, char** argv) {
  const int resource = strcmp(argc > 1 ? argv[1] : "", "data") == 0 ? RLIMIT_DATA : RLIMIT_AS;
  const int by_number = argc > 2;
  for (int i = 0; i < kBallast; ++i) expect((ballast[i] = malloc(kBytes)) != NULL);
  stir(0);
  struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30}, before, seen;
  if (by_number) {
    expect(syscall(SYS_prlimit64, 0, resource, &limit, &before) == 0);
    expect(syscall(SYS_getrlimit, resource, &seen) == 0);
  } else {
    expect(getrlimit(resource, &before) == 0 && setrlimit(resource, &limit) == 0);
    expect(prlimit(getpid(), resource, NULL, &seen) == 0);
  }
  expect(before.rlim_cur == RLIM_INFINITY && seen.rlim_cur == limit.rlim_cur && seen.rlim_max == limit.rlim_max);
  within(1);
  void* volatile too_large = malloc((size_t)1 << 30);
  expect(too_large == NULL && errno == ENOMEM);
  expect(mmap(NULL, (size_t)3 << 29, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
  char* const small = malloc(200 * MIB);
  expect(small != NULL);
  char* volatile growing = realloc(small, 300 * MIB);  // room is kept behind what grows
  expect(growing != NULL);
  void* volatile grown = realloc(growing, 1100 * MIB);
  expect(grown == NULL && errno == ENOMEM);
  free(growing);
  limit.rlim_max /= 2;
  expect(setrlimit(resource, &limit) == -1 && errno == EINVAL);
  const pid_t child = fork();
  if (child == 0) {
    expect(getrlimit(resource, &seen) == 0 && seen.rlim_cur == limit.rlim_cur);
    within(2);
    _exit(0);
  }
  int status = 0;
  expect(waitpid(child, &status, 0) == child && status == 0);
  stir(2);
  puts("all there");
  return 0;
}
