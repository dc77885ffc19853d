// Reads and writes that go past the processor: direct I/O by several threads into and out of memory
// of which a small budget holds a part, through the call that the argument names. What arrives is
// compared, and what was written is read again.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "stranger.h"

enum { kThreads = 4, kBuffers = 10, kRounds = 6 };
static const size_t kBytes = 2 << 20;
static const char* how;
static char path[256];

// One ring a thread, with all buffers registered or none.
struct ring {
  int fd;
  unsigned *tail, *head, *mask, *array;
  struct io_uring_sqe* sqes;
  unsigned *done_head, *done_tail, *done_mask;
  struct io_uring_cqe* done;
};

static struct ring make_ring(char** buffers, int registered) {
  struct io_uring_params about = {0};
  struct ring ring = {.fd = (int)syscall(SYS_io_uring_setup, kBuffers, &about)};
  expect(ring.fd >= 0);
  const size_t bytes = about.sq_off.array + about.sq_entries * sizeof(unsigned);
  const size_t more = about.cq_off.cqes + about.cq_entries * sizeof(struct io_uring_cqe);
  char* const queue = mmap(NULL, bytes > more ? bytes : more, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
  expect(queue != MAP_FAILED);
  ring.sqes = mmap(NULL, about.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQES);
  expect(ring.sqes != MAP_FAILED);
  ring.head = (unsigned*)(queue + about.sq_off.head), ring.tail = (unsigned*)(queue + about.sq_off.tail);
  ring.mask = (unsigned*)(queue + about.sq_off.ring_mask);
  ring.array = (unsigned*)(queue + about.sq_off.array);
  ring.done_head = (unsigned*)(queue + about.cq_off.head);
  ring.done_tail = (unsigned*)(queue + about.cq_off.tail);
  ring.done_mask = (unsigned*)(queue + about.cq_off.ring_mask);
  ring.done = (struct io_uring_cqe*)(queue + about.cq_off.cqes);
  if (registered) {
    struct iovec all[kBuffers];
    for (int i = 0; i < kBuffers; ++i) all[i] = (struct iovec){buffers[i], kBytes};
    expect(syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, all, kBuffers) == 0);
  }
  return ring;
}

// All buffers at once, from or to the file at their own offsets.
static void through_ring(struct ring* ring, int file, char** buffers, off_t offset, int write,
                         int registered) {
  for (int i = 0; i < kBuffers; ++i) {
    const unsigned tail = *ring->tail, slot = tail & *ring->mask;
    ring->sqes[slot] = (struct io_uring_sqe){
        .opcode = registered ? (write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED)
                             : (write ? IORING_OP_WRITE : IORING_OP_READ),
        .fd = file, .addr = (uint64_t)buffers[i], .len = (unsigned)kBytes,
        .off = (uint64_t)offset + (uint64_t)i * kBytes, .buf_index = (uint16_t)i};
    ring->array[slot] = slot;
    __atomic_store_n(ring->tail, tail + 1, __ATOMIC_RELEASE);
  }
  expect(syscall(SYS_io_uring_enter, ring->fd, kBuffers, kBuffers, IORING_ENTER_GETEVENTS, NULL, 0) ==
         kBuffers);
  for (int i = 0; i < kBuffers; ++i) {
    while (__atomic_load_n(ring->done_tail, __ATOMIC_ACQUIRE) == *ring->done_head)
      syscall(SYS_io_uring_enter, ring->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    const struct io_uring_cqe* const one = &ring->done[*ring->done_head & *ring->done_mask];
    expect(one->res == (int)kBytes);
    __atomic_store_n(ring->done_head, *ring->done_head + 1, __ATOMIC_RELEASE);
  }
}

// Through a pipe that is given the pages themselves; they must not change before they are taken out.
static void splice_out(int file, char** buffers, off_t offset) {
  int ends[2];
  expect(pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) >= (1 << 20));
  for (int i = 0; i < kBuffers; ++i) {
    for (size_t at = 0; at < kBytes; at += 1 << 20) {
      struct iovec part = {buffers[i] + at, 1 << 20};
      while (part.iov_len > 0) {
        const ssize_t some = vmsplice(ends[1], &part, 1, 0);
        expect(some > 0);
        part.iov_base = (char*)part.iov_base + some, part.iov_len -= (size_t)some;
      }
      // Everything else has its turn meanwhile.
      for (int other = 0; other < kBuffers; ++other)
        if (other != i) for (size_t k = 0; k < kBytes; k += PAGE) ((volatile char*)buffers[other])[k];
      loff_t to = offset + (off_t)((size_t)i * kBytes + at);
      for (size_t left = 1 << 20; left > 0;) {
        char copy[PAGE] __attribute__((aligned(4096)));
        const ssize_t some = read(ends[0], copy, PAGE);
        expect(some == (ssize_t)PAGE && pwrite(file, copy, PAGE, to) == (ssize_t)PAGE);
        to += some, left -= (size_t)some;
      }
    }
  }
  close(ends[0]), close(ends[1]);
}

static void move(struct ring* ring, int file, char** buffers, off_t offset, int write) {
  if (strncmp(how, "ring", 4) == 0) {
    through_ring(ring, file, buffers, offset, write, strcmp(how, "ring-registered") == 0);
    return;
  }
  if (strcmp(how, "splice") == 0 && write) {
    splice_out(file, buffers, offset);
    return;
  }
  for (int i = 0; i < kBuffers; ++i) {
    const off_t at = offset + (off_t)((size_t)i * kBytes);
    const ssize_t moved = write ? pwrite(file, buffers[i], kBytes, at) : pread(file, buffers[i], kBytes, at);
    expect(moved == (ssize_t)kBytes);
  }
}

static void* work(void* number) {
  const size_t me = (size_t)number;
  const off_t offset = (off_t)(me * kBuffers * kBytes);
  char* buffers[kBuffers];
  for (int i = 0; i < kBuffers; ++i) {
    buffers[i] = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(buffers[i] != MAP_FAILED);
  }
  const int file = open(path, O_RDWR | (strcmp(how, "splice") == 0 ? 0 : O_DIRECT));
  expect(file >= 0);
  struct ring ring = {0};
  if (strncmp(how, "ring", 4) == 0) ring = make_ring(buffers, strcmp(how, "ring-registered") == 0);
  size_t count = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kBuffers; ++i) fill(buffers[i], kBytes, me * 1000 + round * 100 + (uint64_t)i);
    move(&ring, file, buffers, offset, 1);
    for (int i = 0; i < kBuffers; ++i) memset(buffers[i], 0xee, kBytes);
    move(&ring, file, buffers, offset, 0);
    for (int i = 0; i < kBuffers; ++i)
      count += wrong(buffers[i], kBytes, me * 1000 + round * 100 + (uint64_t)i);
  }
  return (void*)count;
}

int main(int argc, char** argv) {
  how = argc > 1 ? argv[1] : "call";
  snprintf(path, sizeof(path), "%s/direct-io-%d", argc > 2 ? argv[2] : ".", getpid());
  const int file = open(path, O_CREAT | O_RDWR, 0600);
  expect(file >= 0 && ftruncate(file, (off_t)(kThreads * kBuffers * kBytes)) == 0);
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) expect(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  size_t count = 0;
  for (int i = 0; i < kThreads; ++i) {
    void* some = NULL;
    pthread_join(threads[i], &some);
    count += (size_t)some;
  }
  unlink(path);
  printf("%zu words are wrong\n", count);
  return count != 0;
}
