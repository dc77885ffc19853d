// Pages that children are to find empty (MADV_WIPEONFORK), with more memory in use than a small
// budget holds.
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "stranger.h"

enum { kBallast = 10 };
static const size_t kBytes = 8 << 20;
static char* ballast[kBallast];

static void* map(void) {
  void* const start = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(start != MAP_FAILED);
  return start;
}

static void stir(void) {
  for (int i = 0; i < kBallast; ++i) fill(ballast[i], kBytes, (uint64_t)i);
}

// In a child, and in a child of that one: each does it once, and the deepest first.
static void in_children(int depth, void (*look)(char*, int), char* start) {
  fflush(NULL);
  const pid_t child = fork();
  expect(child >= 0);
  if (child == 0) {
    look(start, depth);
    if (depth > 1) in_children(depth - 1, look, start);
    _exit(0);
  }
  int status = 0;
  expect(waitpid(child, &status, 0) == child && status == 0);
}

// From one MiB to four and a page, not at the ends of blocks.
static const size_t kFrom = MIB + PAGE, kWiped = 3 * MIB;

static void others_are_there(char* start) {
  expect(wrong(start, kFrom, 5) == 0);
  const uint64_t* const rest = (const uint64_t*)(start + kFrom + kWiped);
  for (size_t i = 0; i < (kBytes - kFrom - kWiped) / 8; ++i)
    expect(rest[i] == word_at(5, (kFrom + kWiped) / 8 + i));
}

static void are_wiped(char* start, int depth) {
  (void)depth;
  expect(not_zero(start + kFrom, kWiped) == 0);
  others_are_there(start);
  fill(start + kFrom, kWiped, 9);  // which its own child must not see
}

static void are_all_there(char* start, int depth) {
  (void)depth;
  expect(wrong(start, kBytes, 5) == 0);
}

static void wipes_them_itself(char* start, int depth) {
  if (depth == 1) {
    are_wiped(start, depth);
    return;
  }
  expect(madvise(start + kFrom, kWiped, MADV_WIPEONFORK) == 0);
  expect(wrong(start, kBytes, 5) == 0);
}

static void read_only_are_wiped(char* start, int depth) {
  (void)depth;
  expect(not_zero(start + kFrom, kWiped) == 0);
  others_are_there(start);
}

int main(void) {
  for (int i = 0; i < kBallast; ++i) expect((ballast[i] = malloc(kBytes)) != NULL);
  for (int moved = 0; moved < 2; ++moved) {
    char* start = map();
    fill(start, kBytes, 5);
    expect(madvise(start + kFrom, kWiped, MADV_WIPEONFORK) == 0);
    expect(madvise(start + 1, PAGE, MADV_WIPEONFORK) == -1 && errno == EINVAL);
    if (moved) stir();
    in_children(2, are_wiped, start);
    if (moved) stir();
    expect(wrong(start, kBytes, 5) == 0);

    expect(mprotect(start + kFrom, kWiped, PROT_READ) == 0);
    if (moved) stir();
    in_children(2, read_only_are_wiped, start);
    expect(mprotect(start + kFrom, kWiped, PROT_READ | PROT_WRITE) == 0);

    expect(madvise(start + kFrom, kWiped, MADV_KEEPONFORK) == 0);
    if (moved) stir();
    in_children(2, are_all_there, start);
    in_children(2, wipes_them_itself, start);
    expect(wrong(start, kBytes, 5) == 0);

    // A mapping that moves keeps it; a new one in its place has none of it.
    expect(madvise(start, kBytes, MADV_WIPEONFORK) == 0);
    start = mremap(start, kBytes, 3 * kBytes, MREMAP_MAYMOVE);
    expect(start != MAP_FAILED && wrong(start, kBytes, 5) == 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
      expect(not_zero(start, 3 * kBytes) == 0);
      _exit(0);
    }
    int status = 0;
    expect(waitpid(child, &status, 0) == child && status == 0);
    expect(mmap(start, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start);
    fill(start, kBytes, 5);
    in_children(2, are_all_there, start);
    expect(munmap(start, 3 * kBytes) == 0);
    for (int i = 0; i < 4; ++i) {
      start = map();
      fill(start, kBytes, 5);
      in_children(1, are_all_there, start);
      expect(madvise(start, kBytes, MADV_WIPEONFORK) == 0 && munmap(start, kBytes) == 0);
    }
  }
  puts("all there");
  return 0;
}
