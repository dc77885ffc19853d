// A child of a fork allocates, grows, shrinks and gives back memory of its own, beside what it has
// inherited. With any argument it leaves alone what it has inherited.
#include <sys/mman.h>
#include <sys/wait.h>

#include "stranger.h"

enum { kBlocks = 12 };
static const size_t kBytes = 8 << 20;

static void own_memory(int round) {
  char* grown = malloc(2 * MIB);
  expect(grown != NULL);
  fill(grown, 2 * MIB, 100);
  for (size_t bytes = 2 * MIB; bytes < 64 * MIB; bytes *= 2) {
    grown = realloc(grown, 2 * bytes);
    expect(grown != NULL && wrong(grown, bytes, 100) == 0);
    fill(grown, 2 * bytes, 100);
  }
  char* mapped[8];
  for (int i = 0; i < 8; ++i) {
    mapped[i] = mmap(NULL, 6 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(mapped[i] != MAP_FAILED && not_zero(mapped[i], 6 * MIB) == 0);
    fill(mapped[i], 6 * MIB, (uint64_t)(200 + i + round));
  }
  mapped[0] = mremap(mapped[0], 6 * MIB, 20 * MIB, MREMAP_MAYMOVE);
  expect(mapped[0] != MAP_FAILED && not_zero(mapped[0] + 6 * MIB, 14 * MIB) == 0);
  for (int i = 0; i < 8; ++i) expect(wrong(mapped[i], 6 * MIB, (uint64_t)(200 + i + round)) == 0);
  // What is given back must be gone: the next mapping reads as zeros.
  for (int i = 0; i < 8; ++i) expect(munmap(mapped[i], i == 0 ? 20 * MIB : 6 * MIB) == 0);
  unsigned char there;
  expect(mincore(mapped[1], PAGE, &there) != 0);
  free(grown);
}

int main(int argc, char** argv) {
  (void)argv;
  char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(kBytes);
    expect(blocks[i] != NULL);
    fill(blocks[i], kBytes, (uint64_t)i);
  }
  for (int round = 0; round < 3; ++round) {
    const pid_t child = fork();
    expect(child >= 0);
    if (child == 0) {
      own_memory(round);
      if (argc == 1) {  // what it has inherited can be grown as well
        blocks[0] = realloc(blocks[0], 2 * kBytes);
        for (int i = 0; i < kBlocks; ++i) expect(wrong(blocks[i], kBytes, (uint64_t)i) == 0);
      }
      for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
      own_memory(round + 50);
      _exit(7);
    }
    int status = 0;
    expect(waitpid(child, &status, 0) == child);
    printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  for (int i = 0; i < kBlocks; ++i) expect(wrong(blocks[i], kBytes, (uint64_t)i) == 0);
  puts("all there");
  return 0;
}
