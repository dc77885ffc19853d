// A program that makes its memory and then puts up a filter of system calls for all its threads: it
// needs no ioctl any more. Whoever makes one is refused, or the process is killed.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "stranger.h"

enum { kBuffers = 10 };

int main(int argc, char** argv) {
  const int kills = argc > 1 && strcmp(argv[1], "kills") == 0;
  char* buffers[kBuffers];
  for (int i = 0; i < kBuffers; ++i) {
    expect((buffers[i] = malloc(8 * MIB)) != NULL);
    fill(buffers[i], 8 * MIB, (uint64_t)i);
  }
  struct sock_filter all[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // the number of the system call
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kills ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof(all) / sizeof(*all), all};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) {
    return NOT_PERMITTED;
  }
  for (int i = 0; i < kBuffers; ++i) expect(wrong(buffers[i], 8 * MIB, (uint64_t)i) == 0);
  puts("all there");
  return 0;
}
