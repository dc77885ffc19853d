// What programs do to pages of their memory beside reading and writing them, each under the name of
// its argument, with more memory in use than a small budget holds.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "stranger.h"

enum { kBallast = 10 };
static const size_t kBytes = 8 << 20;
static char* ballast[kBallast];
static uint64_t version = 1000;

static void* map(size_t bytes) {
  void* const start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(start != MAP_FAILED);
  return start;
}

// Whatever else there is has its turn: what is checked next may have been elsewhere.
static void stir(void) {
  for (int i = 0; i < kBallast; ++i) {
    if (version > 1000) expect(wrong(ballast[i], kBytes, version + (uint64_t)i) == 0);
    fill(ballast[i], kBytes, version + 100 + (uint64_t)i);
  }
  version += 100;
}

static sigjmp_buf back;
static void jump(int signal) { siglongjmp(back, signal); }
// Whether reading, or writing, that byte ends in a signal.
static int hits(volatile char* byte, int write) {
  struct sigaction on = {.sa_handler = jump}, before_segv, before_bus;
  sigaction(SIGSEGV, &on, &before_segv);
  sigaction(SIGBUS, &on, &before_bus);
  const int signal = sigsetjmp(back, 1);
  if (signal == 0) {
    if (write) *byte = 1;
    else (void)*byte;
  }
  sigaction(SIGSEGV, &before_segv, NULL);
  sigaction(SIGBUS, &before_bus, NULL);
  return signal == SIGSEGV;
}

static void protect(void) {
  for (int round = 0; round < 3; ++round) {
    char* const start = map(kBytes);
    fill(start, kBytes, 5);
    expect(mprotect(start + 3 * MIB, PAGE, PROT_NONE) == 0);
    expect(mprotect(start + 5 * MIB, MIB, PROT_READ) == 0);
    expect(mprotect(start + 100, PAGE, PROT_READ) == -1 && errno == EINVAL);
    stir();
    expect(hits(start + 3 * MIB, 0) && hits(start + 5 * MIB, 1) && !hits(start + 5 * MIB, 0));
    expect(!hits(start + 3 * MIB - 1, 0) && !hits(start + 3 * MIB + PAGE, 0));
    expect(wrong(start + 5 * MIB, MIB, 5) != 0);  // it begins in the middle of the pattern
    expect(mprotect(start, kBytes, PROT_READ | PROT_WRITE) == 0);
    expect(wrong(start, kBytes, 5) == 0);
    fill(start, kBytes, 6);
    stir();
    expect(wrong(start, kBytes, 6) == 0);
    expect(mprotect(start, PAGE, PROT_NONE) == 0);
    expect(munmap(start, kBytes) == 0);
  }
}

static void dontneed(void) {
  char* const start = map(kBytes);
  for (int round = 0; round < 6; ++round) {
    fill(start, kBytes, 5);
    if (round % 2) stir();
    expect(madvise(start + 100, PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
    expect(wrong(start, kBytes, 5) == 0);
    expect(madvise(start + MIB, 5 * MIB + 1, MADV_DONTNEED) == 0);  // rounded up to a page
    if (round % 3) stir();
    expect(wrong(start, MIB, 5) == 0);
    expect(not_zero(start + MIB, 5 * MIB + PAGE) == 0);
    char* const rest = start + 6 * MIB + PAGE;
    expect(*(uint64_t*)rest == word_at(5, (size_t)(rest - start) / 8));
    fill(start + MIB, MIB, 9);
    stir();
    expect(wrong(start + MIB, MIB, 9) == 0 && not_zero(start + 2 * MIB, MIB) == 0);
    expect(madvise(start, kBytes, MADV_DONTNEED) == 0 && not_zero(start, kBytes) == 0);
  }
  expect(madvise(start, kBytes, 12345) == -1 && errno == EINVAL);
  // Less than a block that is elsewhere, and all of it with a guard page within.
  fill(start, kBytes, 7);
  stir();
  expect(madvise(start + 4 * MIB + PAGE, MIB, MADV_DONTNEED) == 0);
  stir();
  expect(not_zero(start + 4 * MIB + PAGE, MIB) == 0 && wrong(start, 4 * MIB + PAGE, 7) == 0);
  fill(start, kBytes, 8);
  expect(mprotect(start + 3 * MIB, PAGE, PROT_NONE) == 0);
  stir();
  expect(madvise(start, kBytes, MADV_DONTNEED) == 0);
  stir();
  expect(not_zero(start, 3 * MIB) == 0 && not_zero(start + 4 * MIB, 4 * MIB) == 0);
  expect(mprotect(start, kBytes, PROT_READ | PROT_WRITE) == 0);
  fill(start, kBytes, 9);
  expect(mprotect(start + 2 * MIB, 2 * MIB, PROT_NONE) == 0);
  expect(madvise(start, kBytes, MADV_DONTNEED) == 0);
  expect(mprotect(start, kBytes, PROT_READ | PROT_WRITE) == 0 && not_zero(start, kBytes) == 0);
  fill(start, kBytes, 5);
  expect(madvise(start, kBytes, MADV_FREE) == 0 && madvise(start, kBytes, MADV_HUGEPAGE) == 0);
  fill(start, kBytes, 6);
  stir();
  expect(wrong(start, kBytes, 6) == 0);
  expect(munmap(start, kBytes) == 0);
}

// By the numbers of the system calls, as programs do for which a library is not good enough.
static void number(void) {
  for (int round = 0; round < 3; ++round) {
    char* start = map(kBytes);
    fill(start, kBytes, 8);
    expect(syscall(SYS_madvise, start + 2 * MIB, 3 * MIB, MADV_DONTNEED) == 0);
    stir();
    expect(not_zero(start + 2 * MIB, 3 * MIB) == 0);
    expect(syscall(SYS_madvise, start + 1, PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
    expect(syscall(SYS_mprotect, start, PAGE, PROT_NONE) == 0);
    stir();
    expect(hits(start, 0) && !hits(start + PAGE, 1));
    expect(syscall(SYS_mprotect, start, PAGE, PROT_READ | PROT_WRITE) == 0);
    fill(start, kBytes, 9);
    start = (char*)syscall(SYS_mremap, start, kBytes, 2 * kBytes, MREMAP_MAYMOVE);
    expect(start != MAP_FAILED && not_zero(start + kBytes, kBytes) == 0);
    stir();
    expect(wrong(start, kBytes, 9) == 0);
    expect(syscall(SYS_munmap, start + kBytes, kBytes) == 0);
    char* const other =
        (char*)syscall(SYS_mmap, NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    expect(other != MAP_FAILED && not_zero(other, kBytes) == 0);
    expect(syscall(SYS_munmap, other, kBytes) == 0);
    const int before = errno;
    expect(syscall(SYS_getppid) == getppid() && errno == before);
    expect(syscall(SYS_munmap, start, kBytes) == 0 && syscall(-1L) == -1 && errno == ENOSYS);
  }
}

// By a descriptor of the process. What the kernel does not let it do so, nobody does.
static void advised(void) {
  const int here = (int)syscall(SYS_pidfd_open, getpid(), 0);
  expect(here >= 0);
  char* const start = map(kBytes);
  for (int round = 0; round < 4; ++round) {
    fill(start, kBytes, 5);
    if (round % 2) stir();
    struct iovec parts[] = {{start + 2 * MIB, MIB}, {start + 5 * MIB + PAGE, MIB}};
    const long done = round < 2 ? process_madvise(here, parts, 2, MADV_DONTNEED, 0)
                                : syscall(SYS_process_madvise, here, parts, 2L, MADV_DONTNEED, 0L);
    expect(done == (long)(2 * MIB) || (done == -1 && errno == EINVAL));
    stir();
    if (done != -1) {
      expect(not_zero(start + 2 * MIB, MIB) == 0 && not_zero(start + 5 * MIB + PAGE, MIB) == 0);
      expect(wrong(start, 2 * MIB, 5) == 0);
    } else {
      expect(wrong(start, kBytes, 5) == 0);
    }
    fill(start, kBytes, 6);
    expect(process_madvise(here, parts, 2, MADV_COLD, 0) == (ssize_t)(2 * MIB));
    expect(process_madvise(here, parts, 2, 12345, 0) == -1 && errno == EINVAL);
    stir();
    expect(wrong(start, kBytes, 6) == 0);
  }
  close(here);
  expect(munmap(start, kBytes) == 0);
}

// What no library sees.
static void bare(void) {
  char* const start = map(kBytes);
  for (int round = 0; round < 4; ++round) {
    fill(start, kBytes, 7);
    expect(bare_call(SYS_madvise, (long)(start + 2 * MIB), 3 * PAGE, MADV_DONTNEED) == 0);
    start[2 * MIB + PAGE] = 0;
    expect(not_zero(start + 2 * MIB, 3 * PAGE) == 0);
    stir();
    expect(not_zero(start + 2 * MIB, 3 * PAGE) == 0);
  }
  expect(munmap(start, kBytes) == 0);
}

static void parts(void) {
  // Aligned mappings, as allocators make them: more is mapped, and the ends are given back.
  for (int round = 0; round < 60; ++round) {
    char* const start = map(64 * MIB);
    char* const aligned = start + (16 * MIB - (uintptr_t)start % (16 * MIB)) % (16 * MIB);
    if (aligned > start) expect(munmap(start, (size_t)(aligned - start)) == 0);
    char* const end = aligned + 4 * MIB;
    expect(munmap(end, (size_t)(start + 64 * MIB - end)) == 0);
    fill(aligned, 4 * MIB, (uint64_t)round);
    if (round % 8 == 0) stir();
    expect(hits(end, 0) && hits(end + 20 * MIB, 1));
    expect(wrong(aligned, 4 * MIB, (uint64_t)round) == 0);
    if (round % 2) expect(munmap(aligned, 4 * MIB) == 0);
  }
  // Page by page, from both ends and the middle.
  char* const start = map(kBytes);
  fill(start, kBytes, 3);
  expect(munmap(start + 3 * MIB, 2 * MIB) == 0);
  stir();
  expect(wrong(start, 3 * MIB, 3) == 0);
  for (size_t at = 0; at < kBytes; at += 64 * PAGE) expect(munmap(start + at, 64 * PAGE) == 0);
  expect(munmap(start + 100, PAGE) == -1 && errno == EINVAL);
}

static void remap(void) {
  for (int round = 0; round < 40; ++round) {
    char* start = map(48 * MIB);
    fill(start, 6 * MIB, 4);
    start = mremap(start, 48 * MIB, 6 * MIB, 0);
    expect(start != MAP_FAILED && wrong(start, 6 * MIB, 4) == 0);
    if (round % 2 == 0) {
      if (round % 10 == 0) stir();
      expect(hits(start + 6 * MIB, 0));
      start = mremap(start, 6 * MIB, 12 * MIB, MREMAP_MAYMOVE);
      expect(start != MAP_FAILED && wrong(start, 6 * MIB, 4) == 0);
      expect(not_zero(start + 6 * MIB, 6 * MIB) == 0);
      expect(munmap(start, 12 * MIB) == 0);
    } else {
      char* const to = mmap(NULL, 6 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      expect(mremap(start, 6 * MIB, 6 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
      expect(wrong(to, 6 * MIB, 4) == 0 && munmap(to, 6 * MIB) == 0);
    }
  }
}

static void fixed(void) {
  char* const start = map(kBytes);
  fill(start, kBytes, 4);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  expect(mmap(start + MIB, 3 * MIB, PROT_READ | PROT_WRITE, flags, -1, 0) == start + MIB);
  expect(mmap(start + 5 * MIB, MIB, PROT_NONE, flags, -1, 0) == start + 5 * MIB);
  stir();
  expect(wrong(start, MIB, 4) == 0 && not_zero(start + MIB, 3 * MIB) == 0);
  expect(hits(start + 5 * MIB, 0));
  expect(mmap(start + 5 * MIB, MIB, PROT_READ | PROT_WRITE, flags, -1, 0) == start + 5 * MIB);
  expect(not_zero(start + 5 * MIB, MIB) == 0);
  expect(mmap(start, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
             MAP_FAILED && errno == EEXIST);
  expect(munmap(start, kBytes) == 0);
}

static void lock(void) {
  char* const start = map(kBytes);
  fill(start, kBytes, 4);
  expect(mlock(start + MIB, MIB) == 0 && mlock(start + 5 * MIB, 100) == 0);
  stir();
  expect(wrong(start, kBytes, 4) == 0);
  expect(munlock(start + MIB, MIB) == 0 && munlockall() == 0);
  stir();
  expect(wrong(start, kBytes, 4) == 0);
  expect(mlock(start, MIB) == 0 && munmap(start, kBytes) == 0);
}

// Larger than anybody has, and hardly used.
static void sparse(void) {
  const size_t bytes = (size_t)100 << 30;
  char* const start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  expect(start != MAP_FAILED);
  for (size_t at = 0; at < bytes; at += (size_t)5 << 30) fill(start + at, MIB, at);
  stir();
  for (size_t at = 0; at < bytes; at += (size_t)5 << 30) expect(wrong(start + at, MIB, at) == 0);
  expect(munmap(start, bytes) == 0);
}

// Through other doors than its address.
static void doors(void) {
  char* const start = map(kBytes);
  char* const copy = malloc(kBytes);
  for (int round = 0; round < 4; ++round) {
    fill(start, kBytes, 4);
    if (round % 2) stir();
    struct iovec here = {copy, kBytes}, there = {start, kBytes};
    ssize_t got = 0;
    while (got < (ssize_t)kBytes) {
      here.iov_base = copy + got, there.iov_base = start + got;
      here.iov_len = there.iov_len = kBytes - (size_t)got;
      const ssize_t some = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
      expect(some > 0);
      got += some;
    }
    expect(wrong(copy, kBytes, 4) == 0);
    int ends[2];
    expect(pipe(ends) == 0);
    expect(write(ends[1], start + MIB, 8 * PAGE) == (ssize_t)(8 * PAGE));
    if (round % 2) stir();
    expect(read(ends[0], start + 2 * MIB, 8 * PAGE) == (ssize_t)(8 * PAGE));
    expect(memcmp(start + MIB, start + 2 * MIB, 8 * PAGE) == 0);
    close(ends[0]), close(ends[1]);
  }
  free(copy);
  expect(munmap(start, kBytes) == 0);
}

static const struct {
  const char* name;
  void (*run)(void);
} all[] = {{"protect", protect}, {"dontneed", dontneed}, {"parts", parts}, {"remap", remap},
           {"fixed", fixed},     {"lock", lock},         {"sparse", sparse}, {"doors", doors}, {"number", number},
           {"advised", advised}, {"bare", bare}};

int main(int argc, char** argv) {
  for (int i = 0; i < kBallast; ++i) expect((ballast[i] = malloc(kBytes)) != NULL);
  char* const inherited = map(kBytes);
  for (size_t i = 0; i < sizeof(all) / sizeof(*all); ++i) {
    if (strcmp(argc > 1 ? argv[1] : "", all[i].name) != 0) continue;
    for (int child = 0; child < (all[i].run == bare ? 1 : 2); ++child) {
      // In a child of a fork as well, with memory of its own and with what it has inherited.
      fill(inherited, kBytes, 77);
      const pid_t made = child ? fork() : 0;
      if (made == 0) {
        stir();
        all[i].run();
        stir();
        expect(wrong(inherited, kBytes, 77) == 0);
        if (child) {
          expect(madvise(inherited + MIB, 3 * MIB, MADV_DONTNEED) == 0);
          expect(wrong(inherited, MIB, 77) == 0 && not_zero(inherited + MIB, 3 * MIB) == 0);
          expect(munmap(inherited + 5 * MIB, MIB) == 0 && hits(inherited + 5 * MIB, 0));
          _exit(0);
        }
      } else {
        int status = 0;
        expect(waitpid(made, &status, 0) == made && status == 0);
      }
    }
    expect(wrong(inherited, kBytes, 77) == 0);
    printf("%s: as it should be\n", all[i].name);
  }
  return 0;
}
