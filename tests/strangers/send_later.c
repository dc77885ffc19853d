// What a socket has taken without copying it (io_uring's SEND_ZC) is read by the kernel when the other
// end makes room, long after: it must be what was sent, though its memory has had to leave meanwhile.
// The ring is made by the library or, with the argument "number", by the number of the system call.
#include <arpa/inet.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "stranger.h"

enum { kBlocks = 18, kSends = 8, kRounds = 3 };
static const size_t kBytes = 8 << 20, kSendBytes = 256 << 10;

static void connected(int* from, int* to) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof(at);
  const int server = socket(AF_INET, SOCK_STREAM, 0), small = 64 << 10;
  expect(setsockopt(server, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)) == 0);
  expect(bind(server, (struct sockaddr*)&at, bytes) == 0 && listen(server, 1) == 0);
  expect(getsockname(server, (struct sockaddr*)&at, &bytes) == 0);
  *from = socket(AF_INET, SOCK_STREAM, 0);
  expect(connect(*from, (struct sockaddr*)&at, bytes) == 0);
  *to = accept(server, NULL, NULL);
  expect(*to >= 0);
  close(server);
}

int main(int argc, char** argv) {
  char* blocks[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    blocks[i] = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(blocks[i] != MAP_FAILED);
    fill(blocks[i], kBytes, (uint64_t)i);
  }
  struct io_uring ring = {0};
  if (argc > 1 && strcmp(argv[1], "number") == 0) {
    struct io_uring_params about = {0};
    const int fd = (int)syscall(SYS_io_uring_setup, 2 * kSends, &about);
    expect(fd >= 0 && io_uring_queue_mmap(fd, &about, &ring) == 0);
    // As not all versions of the library have it done.
    ring.sq.ring_mask = *ring.sq.kring_mask, ring.sq.ring_entries = *ring.sq.kring_entries;
    ring.cq.ring_mask = *ring.cq.kring_mask, ring.cq.ring_entries = *ring.cq.kring_entries;
    for (unsigned i = 0; i < ring.sq.ring_entries; ++i) ring.sq.array[i] = i;
  } else {
    expect(io_uring_queue_init(2 * kSends, &ring, 0) == 0);
  }
  size_t count = 0;
  char* const got = malloc(kSendBytes);
  for (int round = 0; round < kRounds; ++round) {
    int from = -1, to = -1;
    connected(&from, &to);
    // Each from a block of its own, and as much as is taken at once.
    size_t taken[kSends] = {0};
    int sent = 0;
    for (; sent < kSends; ++sent) {
      struct io_uring_sqe* const one = io_uring_get_sqe(&ring);
      io_uring_prep_send_zc(one, from, blocks[sent] + kBytes / 2, kSendBytes, MSG_DONTWAIT, 0);
      struct io_uring_cqe* done = NULL;
      expect(io_uring_submit_and_wait(&ring, 1) == 1 && io_uring_wait_cqe(&ring, &done) == 0);
      while (done->flags & IORING_CQE_F_NOTIF) {  // an earlier one's
        io_uring_cqe_seen(&ring, done);
        expect(io_uring_wait_cqe(&ring, &done) == 0);
      }
      const int bytes = done->res;
      io_uring_cqe_seen(&ring, done);
      if (bytes <= 0) break;
      taken[sent] = (size_t)bytes;
    }
    expect(sent > 0);
    for (int i = kSends; i < kBlocks; ++i) fill(blocks[i], kBytes, (uint64_t)(i + round));
    for (int i = kSends; i < kBlocks; ++i)
      expect(wrong(blocks[i], kBytes, (uint64_t)(i + round)) == 0);
    for (int i = 0; i < sent; ++i) {
      expect(recv(to, got, taken[i], MSG_WAITALL) == (ssize_t)taken[i]);
      count += memcmp(got, blocks[i] + kBytes / 2, taken[i]) != 0;
    }
    close(from), close(to);
  }
  printf("%zu of what was sent are wrong\n", count);
  return count != 0;
}
