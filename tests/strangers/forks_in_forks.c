// Children that fork, several at once: every one of them sees what its parent had when it was made.
#include <sys/wait.h>

#include "stranger.h"

enum { kBlocks = 12 };
static const size_t kBytes = 8 << 20;
static char* blocks[kBlocks];

// What a process of this depth does; it ends it.
static void descend(int depth, uint64_t version) {
  for (int i = depth % 3; i < kBlocks; i += 3)
    expect(wrong(blocks[i], kBytes, (uint64_t)i + version) == 0);
  if (depth < 4) {
    fill(blocks[depth], kBytes, (uint64_t)depth + version);
    pid_t children[2];
    for (int c = 0; c < 2; ++c) {
      children[c] = fork();
      expect(children[c] >= 0);
      if (children[c] == 0) {
        descend(depth + 1 + c, version);
        _exit(0);
      }
    }
    for (int c = 0; c < 2; ++c) {
      int status = 0;
      expect(waitpid(children[c], &status, 0) == children[c]);
      expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (int i = 0; i < kBlocks; ++i) expect(wrong(blocks[i], kBytes, (uint64_t)i + version) == 0);
  }
}

int main(void) {
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(kBytes);
    expect(blocks[i] != NULL);
  }
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kBlocks; ++i) fill(blocks[i], kBytes, (uint64_t)(i + 1000 * round));
    const pid_t child = fork();
    expect(child >= 0);
    if (child == 0) {
      descend(1, (uint64_t)(1000 * round));
      _exit(0);
    }
    // The parent goes on writing meanwhile.
    for (int i = 0; i < kBlocks; ++i) fill(blocks[i], kBytes, (uint64_t)(i + 7));
    int status = 0;
    expect(waitpid(child, &status, 0) == child);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  puts("all there");
  return 0;
}
