// Children that know themselves under numbers that are others' here. "two": each is the first of a
// namespace of its own; their parent is killed while they wait, and then both look at what they have
// inherited. "bare": one that no library has seen being made looks at it; "bare-handler": and would
// go on after a signal.
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stranger.h"

enum { kBlocks = 16 };
static const size_t kBytes = 8 << 20;
static char* blocks[kBlocks];
static sigjmp_buf back;

static void go_back(int number) {
  siglongjmp(back, number);
}

static void look(const char* who) {
  size_t count = 0;
  for (int i = 0; i < kBlocks; ++i) count += wrong(blocks[i], kBytes, (uint64_t)i);
  dprintf(STDOUT_FILENO, "%s: %zu wrong\n", who, count);
}

static void two(void) {
  const int own = open("/proc/self/ns/pid", O_RDONLY);
  int gone[2];
  expect(own >= 0 && pipe(gone) == 0);
  for (int i = 0; i < 2; ++i) {
    expect(setns(own, CLONE_NEWPID) == 0 && unshare(CLONE_NEWPID) == 0);
    const pid_t child = fork();
    expect(child >= 0);
    if (child == 0) {
      expect(getpid() == 1);
      close(gone[1]);
      char byte;
      expect(read(gone[0], &byte, 1) == 0);  // the parent's end is closed
      look("child");
      _exit(0);
    }
  }
  usleep(20000);
  kill(getpid(), SIGKILL);
}

static void bare(int with_handler) {
  const long child = bare_call(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0);
  expect(child >= 0);
  if (child == 0) {
    if (with_handler) {
      signal(SIGBUS, go_back);
      if (sigsetjmp(back, 1) != 0) {
        dprintf(STDOUT_FILENO, "stopped\n");
        _exit(3);
      }
    }
    look("child");
    _exit(0);
  }
  int status = 0;
  expect(waitpid((pid_t)child, &status, 0) == child);
  const int as_it_should = WIFSIGNALED(status) || WEXITSTATUS(status) == 3;
  size_t count = 0;
  for (int i = 0; i < kBlocks; ++i) count += wrong(blocks[i], kBytes, (uint64_t)i);
  dprintf(STDOUT_FILENO, "%s, %zu wrong\n", as_it_should ? "ended" : "went on", count);
}

int main(int argc, char** argv) {
  expect(argc > 1);
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(kBytes);
    expect(blocks[i] != NULL);
    fill(blocks[i], kBytes, (uint64_t)i);
  }
  const int own = open("/proc/self/ns/pid", O_RDONLY);
  if (unshare(CLONE_NEWPID) != 0) return NOT_PERMITTED;
  expect(setns(own, CLONE_NEWPID) == 0);
  if (strcmp(argv[1], "two") == 0) {
    two();
  } else {
    bare(strcmp(argv[1], "bare-handler") == 0);
  }
  return 0;
}
