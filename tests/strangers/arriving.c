// Direct I/O into pages that have just come to be read: one thread reads memory of which a small
// budget holds a part, over and over, another reads a file into the first page of each block as
// soon as that is there. All of it must arrive. The argument names how the file is opened: "open",
// "number" (of the system call), "flags" (set afterwards), "inherited" (it is standard input).
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "stranger.h"

enum { kBlocks = 40, kWrites = 800 };
static const size_t kBytes = 2 << 20;
static char* blocks[kBlocks];
static uint64_t versions[kBlocks];
static int stop;

static void* keep_reading(void* unused) {
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
    for (int i = 0; i < kBlocks; ++i) ((volatile char*)blocks[i])[kBytes / 2];
  return unused;
}

static int opened(const char* how, const char* path) {
  if (strcmp(how, "inherited") == 0) return 0;
  if (strcmp(how, "number") == 0) return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECT);
  if (strcmp(how, "open") == 0) return open(path, O_RDONLY | O_DIRECT);
  const int file = open(path, O_RDONLY);
  expect(file >= 0 && fcntl(file, F_SETFL, O_DIRECT) == 0);
  return file;
}

int main(int argc, char** argv) {
  const char* const how = argc > 1 ? argv[1] : "open";
  const char* const path = argc > 2 ? argv[2] : "arriving";
  static uint64_t page[PAGE / 8];
  if (strcmp(how, "make") == 0) {  // page k of the file is version k
    const int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    for (uint64_t k = 0; k <= kWrites; ++k) {
      fill(page, PAGE, k);
      expect(write(file, page, PAGE) == (ssize_t)PAGE);
    }
    return fsync(file);
  }
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // small pages come one after the other
  const int early = strcmp(how, "inherited") == 0 ? opened(how, path) : -1;
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(blocks[i] != MAP_FAILED);
    fill(blocks[i], kBytes, 0);
  }
  const int file = early >= 0 ? early : opened(how, path);
  expect(file >= 0);
  pthread_t thread;
  expect(pthread_create(&thread, NULL, keep_reading, NULL) == 0);
  size_t lost = 0;
  for (uint64_t k = 1; k <= kWrites; ++k) {
    const int i = (int)(k * 7 % kBlocks);
    unsigned char there = 1;
    for (int tries = 0; tries < 20 && there; ++tries) mincore(blocks[i], PAGE, &there), usleep(100);
    for (int tries = 0; tries < 20000 && !there; ++tries) mincore(blocks[i], PAGE, &there);
    lost += wrong(blocks[i], PAGE, versions[i]) != 0;
    const ssize_t some = pread(file, blocks[i], PAGE, (off_t)(k * PAGE));
    expect(some == (ssize_t)PAGE);
    versions[i] = k;
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
  for (int i = 0; i < kBlocks; ++i) lost += wrong(blocks[i], PAGE, versions[i]) != 0;
  printf("%zu pages are lost\n", lost);
  return lost != 0;
}
