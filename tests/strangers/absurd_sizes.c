// Asks for more than any process can have, by every way to ask for memory, before it has any and
// with some, and goes on.
#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>

#include "stranger.h"

// What compilers know of these calls is not to the point.
static void* volatile got;
static void* (*volatile grow)(void*, size_t) = realloc;
#define refused(call) (errno = 0, got = (call), got == NULL && errno == ENOMEM)

static void ask(size_t bytes, char* kept) {
  expect(refused(malloc(bytes)));
  expect(refused(calloc(1, bytes)) && refused(calloc(bytes, 1)) && refused(calloc(bytes / 2, 5)));
  expect(refused(grow(NULL, bytes)));
  expect(refused(reallocarray(NULL, bytes / 2, 5)));
  expect(refused(memalign(64, bytes)) && refused(aligned_alloc(64, bytes)));
  expect(refused(valloc(bytes)) && refused(pvalloc(bytes)));
  void* start = NULL;
  expect(posix_memalign(&start, 64, bytes) == ENOMEM);
  expect(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
         errno == ENOMEM);
  if (kept != NULL) {
    expect(refused(grow(kept, bytes)));
    expect(wrong(kept, 4 * MIB, 1) == 0);
  }
}

int main(void) {
  volatile size_t most = SIZE_MAX;
  char* small = malloc(100);
  for (int round = 0; round < 2; ++round) {
    char* const kept = round == 0 ? NULL : malloc(4 * MIB);
    if (kept != NULL) fill(kept, 4 * MIB, 1);
    const size_t sizes[] = {most, most - 4095, most / 2 + 1, most / 2, (size_t)1 << 60, (size_t)1 << 50};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i) ask(sizes[i], kept);
    expect(refused(grow(small, most)));
    free(kept);
  }
  free(small);
  puts("all there");
  return 0;
}
