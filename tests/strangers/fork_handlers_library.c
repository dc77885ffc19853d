// A library that is set up before the program, and does in its fork handlers what libraries do:
// takes a lock that another thread may hold while it uses large memory, allocates, and looks at
// what it has.
#include <pthread.h>

#include "stranger.h"

char* watched[16];
size_t watched_bytes;
pthread_mutex_t watched_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t look(void) {
  size_t count = 0;
  for (int i = 0; i < 16; ++i)
    if (watched[i] != NULL) count += wrong(watched[i], watched_bytes, (uint64_t)i);
  return count;
}

static void* own;

static void prepare(void) {
  pthread_mutex_lock(&watched_lock);
  own = malloc(4 << 20);
  expect(own != NULL && look() == 0);
  fill(own, 4 << 20, 77);
}

static void after(void) {
  expect(wrong(own, 4 << 20, 77) == 0 && look() == 0);
  free(own);
  pthread_mutex_unlock(&watched_lock);
}

__attribute__((constructor)) static void set_up(void) {
  expect(pthread_atfork(prepare, after, after) == 0);
}
