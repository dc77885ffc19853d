// Memory that grows step by step, by realloc and by mremap, several blocks at once.
#include <sys/mman.h>

#include "stranger.h"

enum { kBlocks = 3 };

int main(void) {
  char* blocks[kBlocks] = {NULL};
  size_t bytes = 0;
  for (int step = 0; step < 160; ++step) {
    const size_t more = 300000 + (size_t)step * 8;
    for (int i = 0; i < kBlocks; ++i) {
      blocks[i] = realloc(blocks[i], bytes + more);
      expect(blocks[i] != NULL);
      memset(blocks[i] + bytes, step + i, more);
      expect(bytes == 0 || blocks[i][bytes - 1] == (char)(step - 1 + i));
    }
    bytes += more;
  }
  size_t at = 0;
  for (int step = 0; step < 160; ++step) {
    const size_t more = 300000 + (size_t)step * 8;
    for (int i = 0; i < kBlocks; ++i)
      for (size_t k = at; k < at + more; ++k) expect(blocks[i][k] == (char)(step + i));
    at += more;
  }
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  bytes = 2 * MIB;
  char* mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int step = 0; step < 60; ++step) {
    fill(mapped, bytes, 4);
    mapped = mremap(mapped, bytes, bytes + 150 * PAGE, MREMAP_MAYMOVE);
    expect(mapped != MAP_FAILED && wrong(mapped, bytes, 4) == 0);
    expect(not_zero(mapped + bytes, 150 * PAGE) == 0);
    bytes += 150 * PAGE;
  }
  expect(munmap(mapped, bytes) == 0);
  puts("all there");
  return 0;
}
