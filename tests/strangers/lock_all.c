// Locks all its memory, before it has any or when it has some.
#include <errno.h>
#include <sys/mman.h>

#include "stranger.h"

enum { kBlocks = 10 };
static const size_t kBytes = 8 << 20;

int main(int argc, char** argv) {
  const int early = argc > 1 && strcmp(argv[1], "early") == 0;
  char* blocks[kBlocks];
  if (early) puts(mlockall(MCL_CURRENT | MCL_FUTURE) == 0 ? "locked" : "refused");
  for (int i = 0; i < kBlocks; ++i) {
    expect((blocks[i] = malloc(kBytes)) != NULL);
    fill(blocks[i], kBytes, (uint64_t)i);
  }
  if (!early) puts(mlockall(MCL_CURRENT | MCL_FUTURE) == 0 ? "locked" : "refused");
  for (int i = 0; i < kBlocks; ++i) expect(wrong(blocks[i], kBytes, (uint64_t)i) == 0);
  puts("all there");
  return 0;
}
