// Large memory that moves because it cannot grow where it is: the kernel moves pages, and nobody
// ever has both. In a child of a fork as well.
#include <sys/mman.h>
#include <sys/wait.h>

#include "stranger.h"

enum { kBuffers = 3 };

static void* map(size_t bytes) {
  void* const start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(start != MAP_FAILED);
  return start;
}

static void outgrow(int mapped) {
  char* buffers[kBuffers];
  for (int i = 0; i < kBuffers; ++i) {
    buffers[i] = mapped ? map(32 * MIB) : malloc(32 * MIB);
    expect(buffers[i] != NULL);
    fill(buffers[i], 32 * MIB, (uint64_t)i);
  }
  for (int i = 0; i < kBuffers; ++i) {
    const size_t bytes = 34 * MIB;
    buffers[i] = mapped ? mremap(buffers[i], 32 * MIB, bytes, MREMAP_MAYMOVE)
                        : realloc(buffers[i], bytes);
    expect(buffers[i] != MAP_FAILED && buffers[i] != NULL);
    memset(buffers[i] + 32 * MIB, i, 2 * MIB);
  }
  for (int i = 0; i < kBuffers; ++i) {
    expect(wrong(buffers[i], 32 * MIB, (uint64_t)i) == 0 && buffers[i][33 * MIB] == i);
    if (mapped) munmap(buffers[i], 34 * MIB);
    else free(buffers[i]);
  }
}

// In KiB. What rusage tells counts the process that has started this one, before its exec.
static long most_resident(void) {
  long most = -1;
  char line[256];
  FILE* const status = fopen("/proc/self/status", "r");
  expect(status != NULL);
  while (most < 0 && fgets(line, sizeof(line), status) != NULL) sscanf(line, "VmHWM: %ld", &most);
  fclose(status);
  return most;
}

int main(void) {
  char* const large = malloc(96 * MIB);
  expect(large != NULL);
  fill(large, 96 * MIB, 5);
  char* const moved = realloc(large, 100 * MIB);
  expect(moved != NULL && wrong(moved, 96 * MIB, 5) == 0);
  expect(most_resident() > 0 && most_resident() < 160 << 10);
  for (int mapped = 0; mapped < 2; ++mapped) {
    outgrow(mapped);
    const pid_t child = fork();
    if (child == 0) {
      outgrow(mapped);
      _exit(wrong(moved, 96 * MIB, 5) == 0 ? 0 : 1);
    }
    int status = 0;
    expect(waitpid(child, &status, 0) == child && status == 0);
  }
  expect(wrong(moved, 96 * MIB, 5) == 0);
  puts("all there");
  return 0;
}
