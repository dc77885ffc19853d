// A child that gives back the first part of what it has inherited and goes on to use the rest.
#include <sys/mman.h>
#include <sys/wait.h>

#include "stranger.h"

enum { kBlocks = 16 };
static const size_t kBytes = 8 << 20;

int main(void) {
  char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(blocks[i] != MAP_FAILED);
    fill(blocks[i], kBytes, 1);
  }
  const pid_t child = fork();
  expect(child >= 0);
  if (child == 0) {
    for (int i = 0; i < kBlocks; ++i) {
      uint64_t* const rest = (uint64_t*)(blocks[i] + 5 * MIB);
      expect(munmap(blocks[i] + 4 * MIB, MIB) == 0);
      for (size_t word = 0; word < 3 * MIB / 8; ++word)
        expect(rest[word] == word_at(1, 5 * MIB / 8 + word));
      rest[0] = 7;
      expect(rest[0] == 7 && wrong(blocks[i], 4 * MIB, 1) == 0);
    }
    _exit(0);
  }
  int status = 0;
  expect(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  for (int i = 0; i < kBlocks; ++i) expect(wrong(blocks[i], kBytes, 1) == 0);
  puts("all there");
  return 0;
}
