// A parent that leaves while its child lives on, in the way that its argument names; "network-" before
// that: both have left the network in which the parent began. The parent goes when the child has
// begun, "at-once" without that; the child is then in the control group whose folder is the second
// argument, if there is one. The child waits until it has gone and
// then looks at all that it has inherited; what it sees is on standard output, whose other end is
// closed when both have ended.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "stranger.h"

enum { kBlocks = 16 };
static const size_t kBytes = 8 << 20;
static char* blocks[kBlocks];

static void look(const char* who) {
  size_t count = 0;
  for (int i = 0; i < kBlocks; ++i) count += wrong(blocks[i], kBytes, (uint64_t)i);
  for (int i = 0; i < kBlocks; ++i) fill(blocks[i], kBytes, (uint64_t)(i + 50));
  for (int i = 0; i < kBlocks; ++i) count += wrong(blocks[i], kBytes, (uint64_t)(i + 50));
  dprintf(STDOUT_FILENO, "%s: %zu wrong\n", who, count);
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "_exit";
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(kBytes);
    expect(blocks[i] != NULL);
    fill(blocks[i], kBytes, (uint64_t)i);
  }
  if (strncmp(how, "network-", 8) == 0) {
    how += 8;
    if (unshare(CLONE_NEWNET) != 0) return NOT_PERMITTED;
  }
  int gone[2];
  int begun[2];
  expect(pipe(gone) == 0 && pipe(begun) == 0);
  const pid_t child = fork();
  expect(child >= 0);
  if (child == 0) {
    expect(setsid() > 0);
    close(gone[1]);
    if (argc > 2) {
      const int group = open(argv[2], O_WRONLY);
      expect(group >= 0 && write(group, "0", 1) == 1 && close(group) == 0);
    }
    close(begun[1]);
    char byte;
    expect(read(gone[0], &byte, 1) == 0);  // the parent's end is closed
    if (strcmp(how, "grandchild") == 0 || strcmp(how, "killed-grandchild") == 0) {
      const pid_t grandchild = fork();
      expect(grandchild >= 0);
      if (grandchild == 0) {
        look("grandchild");
        _exit(0);
      }
      expect(waitpid(grandchild, NULL, 0) == grandchild);
    }
    look("child");
    _exit(0);
  }
  close(begun[1]);
  char byte;
  expect(strcmp(how, "killed-at-once") == 0 || read(begun[0], &byte, 1) == 0);
  if (strncmp(how, "killed", 6) == 0) {
    kill(getpid(), strcmp(how, "killed-by-itself") == 0 ? SIGSEGV : SIGKILL);
  }
  if (strcmp(how, "exit") == 0) return 5;
  if (strcmp(how, "quick_exit") == 0) quick_exit(5);
  if (strcmp(how, "exec") == 0) {
    close(gone[1]);
    execl("/bin/sh", "sh", "-c", "exit 5", (char*)NULL);
  }
  if (strcmp(how, "_Exit") == 0) _Exit(5);
  _exit(5);
}
