// Writes of the kernel's on somebody's behalf into memory of which a small budget holds a part:
// through /proc/self/mem, or process_vm_writev, as its argument says, while another thread keeps
// everything moving. What was written is compared.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>

#include "stranger.h"

enum { kBlocks = 12, kPages = 2048, kWrites = 4000 };
static char* blocks[kBlocks];
static uint32_t versions[kBlocks][kPages];
static int stop;

static void* keep_moving(void* unused) {
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
    for (int i = 0; i < kBlocks; ++i)
      for (size_t at = 0; at < kPages * PAGE; at += 2 * MIB) ((volatile char*)blocks[i])[at];
  return unused;
}

int main(int argc, char** argv) {
  const int through_file = argc < 2 || strcmp(argv[1], "mem") == 0;
  const int file = open("/proc/self/mem", O_RDWR);
  expect(file >= 0);
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(kPages * PAGE);
    expect(blocks[i] != NULL);
    memset(blocks[i], 0, kPages * PAGE);
  }
  pthread_t thread;
  expect(pthread_create(&thread, NULL, keep_moving, NULL) == 0);
  static uint64_t page[PAGE / 8];
  uint64_t random = 12345;
  for (uint32_t k = 1; k <= kWrites; ++k) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const int i = (int)((random >> 33) % kBlocks);
    const size_t p = (random >> 40) % kPages;
    char* const to = blocks[i] + p * PAGE;
    for (size_t w = 0; w < PAGE / 8; ++w) page[w] = word_at(k, w);
    for (;;) {
      *(volatile char*)to = *(volatile char*)to;  // it is there, and may be written, for a moment
      struct iovec from = {page, PAGE}, there = {to, PAGE};
      const ssize_t some = through_file ? pwrite(file, page, PAGE, (off_t)(uintptr_t)to)
                                        : process_vm_writev(getpid(), &from, 1, &there, 1, 0);
      if (some == (ssize_t)PAGE) break;
      expect(some <= 0 && (errno == EIO || errno == EFAULT));  // it has left
    }
    versions[i][p] = k;
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
  size_t count = 0;
  for (int i = 0; i < kBlocks; ++i)
    for (size_t p = 0; p < kPages; ++p)
      if (versions[i][p] != 0) count += wrong(blocks[i] + p * PAGE, PAGE, versions[i][p]) != 0;
  printf("%zu pages are wrong\n", count);
  return count != 0;
}
