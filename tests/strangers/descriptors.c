// Closes or overwrites every descriptor that it has not opened, in the way that its argument names,
// and goes on using its memory.
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "stranger.h"

enum { kBlocks = 16, kFirst = 3 };
static const size_t kBytes = 8 << 20;

static int limit(void) {
  struct rlimit most;
  expect(getrlimit(RLIMIT_NOFILE, &most) == 0);
  return most.rlim_cur > 70000 ? 70000 : (int)most.rlim_cur;
}

static void close_all(const char* how) {
  if (strcmp(how, "close") == 0) {
    for (int fd = kFirst; fd < limit(); ++fd) close(fd);
  } else if (strcmp(how, "close_range") == 0) {
    expect(close_range(kFirst, ~0U, 0) == 0);
  } else if (strcmp(how, "closefrom") == 0) {
    closefrom(kFirst);
  } else if (strcmp(how, "dup2") == 0) {
    for (int fd = kFirst; fd < 200; ++fd) expect(dup2(0, fd) == fd);
    for (int fd = kFirst; fd < 200; ++fd) expect(close(fd) == 0);
  } else if (strcmp(how, "number") == 0) {
    for (int fd = kFirst; fd < limit(); ++fd) syscall(SYS_close, fd);
  } else if (strcmp(how, "range-number") == 0) {
    expect(syscall(SYS_close_range, kFirst, ~0U, 0) == 0);
  } else if (strcmp(how, "bare") == 0) {
    for (int fd = kFirst; fd < limit(); ++fd) bare_call(SYS_close, fd, 0, 0);
  }
}

int main(int argc, char** argv) {
  char* blocks[kBlocks];
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kBlocks; ++i) {
      if (round == 0) blocks[i] = malloc(kBytes);
      expect(blocks[i] != NULL);
      fill(blocks[i], kBytes, (uint64_t)(i + round));
    }
    close_all(argc > 1 ? argv[1] : "");
    // The lowest number that is free is what it would be alone.
    const int fd = open("/dev/null", O_RDWR);
    printf("%d\n", fd);
    expect(write(fd, blocks[0], kBytes) == (ssize_t)kBytes);
    for (int i = 0; i < kBlocks; ++i)
      expect(wrong(blocks[i], kBytes, (uint64_t)(i + round)) == 0);
    expect(close(fd) == 0 && close(fd) == -1 && errno == EBADF);
    blocks[round] = realloc(blocks[round], 2 * kBytes);
  }
  puts("all there");
  return 0;
}
