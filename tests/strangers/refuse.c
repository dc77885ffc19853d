// refuse WHAT PROGRAM ARGUMENTS...: runs a program that is refused a part of userfaultfd, as containers
// refuse it (seccomp): "call" all ways to one, "api", "register", "copy" or "poison" what is asked of
// it.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "stranger.h"

// Newer than the headers of some systems.
static const unsigned kPoison = _IOC(_IOC_READ | _IOC_WRITE, UFFDIO, 0x08, 32);

// With EPERM. The request of an ioctl is its second argument, of which the low half says it all.
static void refuse(unsigned call, unsigned request) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, request, 0, request != 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
  expect(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  expect(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

int main(int argc, char** argv) {
  expect(argc > 2);
  if (strcmp(argv[1], "call") == 0) {
    refuse(SYS_userfaultfd, 0);
    refuse(SYS_ioctl, (unsigned)USERFAULTFD_IOC_NEW);
  } else {
    refuse(SYS_ioctl, strcmp(argv[1], "api") == 0        ? (unsigned)UFFDIO_API
                      : strcmp(argv[1], "register") == 0 ? (unsigned)UFFDIO_REGISTER
                      : strcmp(argv[1], "poison") == 0   ? kPoison
                                                         : (unsigned)UFFDIO_COPY);
  }
  execvp(argv[2], argv + 2);
  return 99;
}
