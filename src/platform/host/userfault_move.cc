// Moving pages (UFFDIO_MOVE, Linux 6.8), and knowing afterwards where they are. See userfault.h.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "platform/common/say.h"
#include "platform/host/userfault.h"

namespace spillway::host {
namespace {

// Newer than the headers of some systems that run it.
struct MoveArgument {
  __u64 to;
  __u64 from;
  __u64 bytes;
  __u64 mode;
  __s64 moved;
};
constexpr unsigned long kMove = _IOWR(UFFDIO, 0x05, MoveArgument);
constexpr std::uint64_t kMoveWakesNobody = 1;

// Nothing is there, not even what the system is moving elsewhere at the moment.
bool is_missing(void* page) {
  unsigned char resident = 1;
  return ::mincore(page, kPageBytes, &resident) == 0 && (resident & 1U) == 0;
}

}  // namespace

// What the kernel says has been moved need not be all: Linux 6.18 forgets to count the pages that
// it moves after it has had to wait for one, such as one that the system compacts, and then stops
// because it finds them at `to`. So only the page tables know.
int Userfault::move(void* to, void* from, Bytes bytes) const {
  char* const there = static_cast<char*>(to);
  char* const here = static_cast<char*>(from);
  Bytes done = 0;
  int error = move_some(to, from, bytes, done);
  if (error == 0 || (done == 0 && error != EEXIST)) {
    return error;
  }
  for (error = 0; error == 0 && done < bytes; done += error == 0 ? kPageBytes : 0) {
    error = move_page(there + done, here + done);
  }
  if (error != 0) {
    move_back(here, there, done);
  }
  return error;
}

// One call, made until the kernel does not ask for another try with nothing moved.
int Userfault::move_some(void* to, void* from, Bytes bytes, Bytes& moved_bytes) const {
  MoveArgument argument{.to = address_of(to),
                        .from = address_of(from),
                        .bytes = bytes,
                        .mode = kMoveWakesNobody,
                        .moved = 0};
  int error = 0;
  do {
    error = call(kMove, &argument) == 0 ? 0 : errno;
  } while (error != 0 && argument.moved <= 0 && again(error));
  moved_bytes = static_cast<Bytes>(std::max<__s64>(argument.moved, 0));
  return error;
}

int Userfault::move_page(void* to, void* from) const {
  Bytes moved_bytes = 0;
  const int error = move_some(to, from, kPageBytes, moved_bytes);
  return error == EEXIST && is_missing(from) ? 0 : error;  // it is there, though not counted
}

// The pages that have moved, and maybe some of them already have moved back.
void Userfault::move_back(char* to, char* from, Bytes bytes) const {
  Bytes moved_bytes = 0;
  if (bytes == 0 || move_some(to, from, bytes, moved_bytes) == 0) {
    return;
  }
  for (Bytes at = 0; at < bytes; at += kPageBytes) {
    const int error = move_some(to + at, from + at, kPageBytes, moved_bytes);
    if (error != 0 && error != ENOENT && error != EEXIST) {
      end_run(
          fmt::format("half of {} of the program's memory can be moved neither on nor back: {}; "
                      "ending it before data is lost",
                      format_bytes(bytes), std::strerror(error)));
    }
  }
}

}  // namespace spillway::host
