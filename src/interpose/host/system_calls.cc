// System calls by their numbers, in front of the C library's `syscall`: what concerns the space, or
// our descriptor, is answered as the function of that name answers it; all others go to the kernel
// as they are. Layer: interpose, host.
// Nothing is looked up and nothing allocates: programs use this in signal handlers. No frame is
// made for calls that make processes, which may come back on another stack.
// Rings are made here or by liburing, which calls the kernel by itself: what is put into a ring
// (SEND_ZC) may be read by the kernel long after it has been answered.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "interpose/host/mappings/direct_io.h"
#include "interpose/host/mappings/limits.h"
#include "interpose/host/mappings/pages.h"
#include "interpose/host/next.h"
#include "interpose/host/process/bare_call.h"
#include "interpose/host/process/ending.h"
#include "interpose/host/session.h"
#include "platform/common/process/service_thread.h"

// Arguments that are passed without a prototype lie where those of a function of seven words do.
// 56: clone, 58: vfork, 435: clone3.
asm(R"(
    .text
    .globl syscall
    .type syscall, @function
syscall:
    .cfi_startproc
    endbr64
    cmpq $56, %rdi
    je spillway_bare_call
    cmpq $58, %rdi
    je spillway_bare_call
    cmpq $435, %rdi
    je spillway_bare_call
    jmp spillway_system_call
    .cfi_endproc
    .size syscall, .-syscall

    .globl spillway_bare_call
    .hidden spillway_bare_call
    .type spillway_bare_call, @function
spillway_bare_call:
    .cfi_startproc
    endbr64
    movq %rdi, %rax
    movq %rsi, %rdi
    movq %rdx, %rsi
    movq %rcx, %rdx
    movq %r8, %r10
    movq %r9, %r8
    movq 8(%rsp), %r9
    syscall
    cmpq $-4095, %rax
    jae 1f
    ret
1:  movq %rax, %rdi
    jmp spillway_call_failed
    .cfi_endproc
    .size spillway_bare_call, .-spillway_bare_call
)");

namespace spillway::preload {
namespace {

void* pointer(long word) { return reinterpret_cast<void*>(word); }  // NOLINT: as the kernel has it

bool meets(long start, long bytes) {
  return meets_space(pointer(start), static_cast<std::size_t>(bytes));
}

bool is_ours(long fd) { return fd >= 0 && fd == kept_from_program(); }

// Whether the function of that name has more to do than to ask the kernel.
bool concerns_us(long number, const long (&words)[6]) {
  const auto [first, second, third, fourth, fifth, sixth] = words;
  switch (number) {
    case SYS_munmap:
    case SYS_madvise:
    case SYS_mprotect:
    case SYS_pkey_mprotect:
    case SYS_mlock:
    case SYS_mlock2:
    case SYS_munlock:
      return meets(first, second);
    case SYS_mmap:
      return (fourth & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0 && meets(first, second);
    case SYS_mremap:
      return meets(first, second) || ((fourth & MREMAP_FIXED) != 0 && meets(fifth, third));
    case SYS_mlockall:
    case SYS_munlockall:
      return true;
    case SYS_close:
      return is_ours(static_cast<int>(first));
    case SYS_dup2:
    case SYS_dup3:
      return is_ours(static_cast<int>(second));
    case SYS_close_range: {
      const int kept = kept_from_program();
      return kept >= 0 && static_cast<unsigned>(kept) >= static_cast<unsigned>(first) &&
             static_cast<unsigned>(kept) <= static_cast<unsigned>(second);
    }
    case SYS_ioctl:
      return static_cast<unsigned long>(second) == UFFDIO_REGISTER;
    case SYS_setrlimit:
    case SYS_getrlimit:
    case SYS_prlimit64:
    case SYS_process_madvise:
      return true;
    default:
      return false;
  }
}

long carry_out(long number, const long (&words)[6]) {
  const auto [first, second, third, fourth, fifth, sixth] = words;
  const auto bytes = static_cast<std::size_t>(second);
  const int last = static_cast<int>(third);
  switch (number) {
    case SYS_munmap:
      return ::munmap(pointer(first), bytes);
    case SYS_madvise:
      return ::madvise(pointer(first), bytes, last);
    case SYS_mprotect:
      return ::mprotect(pointer(first), bytes, last);
    case SYS_pkey_mprotect:
      return ::pkey_mprotect(pointer(first), bytes, last, static_cast<int>(fourth));
    case SYS_mlock:
      return ::mlock(pointer(first), bytes);
    case SYS_mlock2:
      return ::mlock2(pointer(first), bytes, static_cast<unsigned>(third));
    case SYS_munlock:
      return ::munlock(pointer(first), bytes);
    case SYS_mmap:
      return kernel_word(::mmap(pointer(first), bytes, last, static_cast<int>(fourth),
                                static_cast<int>(fifth), sixth));
    case SYS_mremap:
      return kernel_word(::mremap(pointer(first), bytes, static_cast<std::size_t>(third),
                                  static_cast<int>(fourth), pointer(fifth)));
    case SYS_mlockall:
      return ::mlockall(static_cast<int>(first));
    case SYS_munlockall:
      return ::munlockall();
    case SYS_close:
      return ::close(static_cast<int>(first));
    case SYS_dup2:
      return ::dup2(static_cast<int>(first), static_cast<int>(second));
    case SYS_dup3:
      return ::dup3(static_cast<int>(first), static_cast<int>(second), last);
    case SYS_close_range:
      return ::close_range(static_cast<unsigned>(first), static_cast<unsigned>(second), last);
    case SYS_setrlimit:
      return limit_process(0, static_cast<int>(first), pointer(second), nullptr);
    case SYS_getrlimit:
      return limit_process(0, static_cast<int>(first), nullptr, pointer(second));
    case SYS_prlimit64:
      return limit_process(static_cast<int>(first), static_cast<int>(second), pointer(third),
                           pointer(fourth));
    case SYS_process_madvise:
      return ::process_madvise(static_cast<int>(first), static_cast<const iovec*>(pointer(second)),
                               static_cast<std::size_t>(third), static_cast<int>(fourth),
                               static_cast<unsigned>(fifth));
    default:
      return ::ioctl(static_cast<int>(first), static_cast<unsigned long>(second), pointer(third));
  }
}

// What is to be known before the kernel does it.
void note(long number, const long (&words)[6]) {
  switch (number) {
    case SYS_io_uring_setup:
      expect_pins();
      keep_no_frames();
      break;
    case SYS_process_vm_writev:
      expect_pins();
      break;
    case SYS_vmsplice:
      keep_no_frames();
      break;
    case SYS_socket:
      note_socket(static_cast<int>(words[0]));
      break;
    case SYS_fcntl:
      if (words[1] == F_SETFL) {
        note_flags(static_cast<int>(words[2]));
      }
      break;
    case SYS_open_by_handle_at:
      note_flags(static_cast<int>(words[2]));
      break;
    case SYS_setsockopt:
      if (words[1] == SOL_SOCKET && words[2] == SO_ZEROCOPY) {
        keep_no_frames();
      }
      break;
    case SYS_exit_group:
    case SYS_execve:
    case SYS_execveat:
      before_end();
      break;
    default:
      break;
  }
}

// What is to be known once the kernel has done it.
void note_done(long number, const long (&words)[6]) {
  const auto path = [&](int word) { return static_cast<const char*>(pointer(words[word])); };
  switch (number) {
    case SYS_open:
      note_opened(path(0), static_cast<int>(words[1]));
      break;
    case SYS_openat:
      note_opened(path(1), static_cast<int>(words[2]));
      break;
    case SYS_openat2:
      note_opened(path(1), static_cast<int>(*static_cast<const std::uint64_t*>(pointer(words[2]))));
      break;
    default:
      break;
  }
}

// Also our own requests go this way; what stands in the rings of ours is known.
void a_ring_is_made() {
  if (!in_service()) {
    expect_pins();
    keep_no_frames();
  }
}

}  // namespace
}  // namespace spillway::preload

namespace pre = spillway::preload;

extern "C" {

__attribute__((visibility("hidden"))) long spillway_call_failed(long answer) {
  errno = static_cast<int>(-answer);
  return -1;
}

__attribute__((visibility("hidden"))) long spillway_system_call(long number, long first,
                                                                long second, long third,
                                                                long fourth, long fifth,
                                                                long sixth) {
  const long words[6] = {first, second, third, fourth, fifth, sixth};
  const bool ours = spillway::in_service();
  if (!ours) {
    if (pre::concerns_us(number, words)) {
      return pre::carry_out(number, words);
    }
    pre::note(number, words);
  }
  const long answer = spillway_bare_call(number, first, second, third, fourth, fifth, sixth);
  if (!ours && answer >= 0) {
    pre::note_done(number, words);
  }
  return answer;
}

struct io_uring;
struct io_uring_params;

int io_uring_queue_init(unsigned entries, io_uring* ring, unsigned flags) {
  static const auto next = pre::next<int (*)(unsigned, io_uring*, unsigned)>("io_uring_queue_init");
  pre::a_ring_is_made();
  return next == nullptr ? -ENOSYS : next(entries, ring, flags);
}

int io_uring_queue_init_params(unsigned entries, io_uring* ring, io_uring_params* about) {
  static const auto next =
      pre::next<int (*)(unsigned, io_uring*, io_uring_params*)>("io_uring_queue_init_params");
  pre::a_ring_is_made();
  return next == nullptr ? -ENOSYS : next(entries, ring, about);
}

// Newer versions of liburing have it.
int io_uring_queue_init_mem(unsigned entries, io_uring* ring, io_uring_params* about, void* memory,
                            std::size_t bytes) {
  static const auto next =
      pre::next<int (*)(unsigned, io_uring*, io_uring_params*, void*, std::size_t)>(
          "io_uring_queue_init_mem");
  pre::a_ring_is_made();
  return next == nullptr ? -ENOSYS : next(entries, ring, about, memory, bytes);
}

int io_uring_setup(unsigned entries, io_uring_params* about) {
  static const auto next = pre::next<int (*)(unsigned, io_uring_params*)>("io_uring_setup");
  pre::a_ring_is_made();
  return next == nullptr ? -ENOSYS : next(entries, about);
}
}
