// Forks while a thread uses large memory under a lock that a library's fork handler takes.
#include <pthread.h>
#include <sys/wait.h>

#include "stranger.h"

extern char* watched[16];
extern size_t watched_bytes;
extern pthread_mutex_t watched_lock;

static int stop;

static void* use(void* unused) {
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    pthread_mutex_lock(&watched_lock);
    for (int i = 0; i < 16; ++i)
      for (size_t at = 0; at < watched_bytes; at += PAGE) ((volatile char*)watched[i])[at];
    pthread_mutex_unlock(&watched_lock);
    usleep(1000);
  }
  return unused;
}

int main(void) {
  watched_bytes = 8 << 20;
  for (int i = 0; i < 16; ++i) {
    char* const block = malloc(watched_bytes);
    expect(block != NULL);
    fill(block, watched_bytes, (uint64_t)i);
    watched[i] = block;
  }
  pthread_t thread;
  expect(pthread_create(&thread, NULL, use, NULL) == 0);
  for (int round = 0; round < 4; ++round) {
    const pid_t child = fork();
    expect(child >= 0);
    if (child == 0) _exit(0);
    int status = 0;
    expect(waitpid(child, &status, 0) == child && status == 0);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
  puts("all there");
  return 0;
}
