// Moving pages (UFFDIO_MOVE, Linux 6.8), and knowing afterwards where they are. See userfault.h.
#include <fmt/format.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "platform/common/process/say.h"
#include "platform/host/faults/userfault.h"
#include "platform/host/pages/page_tables.h"

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

// Of pages that were at `from`, and of which some have been moved to `to`.
struct Run {
  Bytes at = 0;
  Bytes bytes = 0;  // 0: there is none
};

// The first of those that have been.
Run first_moved(const void* to, const void* from, Bytes bytes) {
  const PageTables there(to, bytes);
  const PageTables here(from, bytes);
  const auto moved = [&](std::size_t page) { return there.has(page) && !here.has(page); };
  std::size_t page = 0;
  while (page < there.pages() && !moved(page)) {
    ++page;
  }
  std::size_t end = page;
  while (end < there.pages() && moved(end)) {
    ++end;
  }
  return {.at = page * kPageBytes, .bytes = (end - page) * kPageBytes};
}

// After a refusal. Pages that are not counted are in the way, or have been given up there by the
// program.
bool some_may_have_moved(Bytes counted_bytes, int error) {
  return counted_bytes > 0 || error == EEXIST || error == ENOENT;
}

}  // namespace

// What the kernel says has been moved need not be all: Linux 6.18 forgets to count the pages that
// it moves after it has had to wait for one, such as one that the system compacts, and then stops
// because it finds them at `to`. So what it has not said is looked up.
Bytes Userfault::move_on(void* to, void* from, Bytes bytes, int& error) const {
  char* const there = static_cast<char*>(to);
  char* const here = static_cast<char*>(from);
  Bytes done = 0;
  while (done < bytes) {
    Bytes counted_bytes = 0;
    error = move_some(there + done, here + done, bytes - done, counted_bytes);
    if (error == 0) {
      return bytes;
    }
    done += counted_bytes;
    const Run more = some_may_have_moved(done, error) && done < bytes
                         ? first_moved(there + done, here + done, bytes - done)
                         : Run{};
    const Bytes uncounted_bytes = more.at == 0 ? more.bytes : 0;
    done += uncounted_bytes;
    if (counted_bytes + uncounted_bytes == 0) {
      return done;
    }
  }
  error = 0;
  return bytes;
}

int Userfault::move(void* to, void* from, Bytes bytes) const {
  int error = 0;
  const Bytes moved_bytes = move_on(to, from, bytes, error);
  if (error != 0 && some_may_have_moved(moved_bytes, error)) {
    move_back(static_cast<char*>(from), static_cast<char*>(to), bytes);
  }
  return error;
}

// One call, made until the kernel does not ask for another try with nothing moved.
int Userfault::move_some(void* to, void* from, Bytes bytes, Bytes& counted_bytes) const {
  MoveArgument argument{.to = address_of(to),
                        .from = address_of(from),
                        .bytes = bytes,
                        .mode = kMoveWakesNobody,
                        .moved = 0};
  int error = 0;
  do {
    error = call(kMove, &argument) == 0 ? 0 : errno;
  } while (error != 0 && argument.moved <= 0 && again(error));
  counted_bytes = static_cast<Bytes>(std::max<__s64>(argument.moved, 0));
  return error;
}

// Whatever is at `from` and not at `to`, where it was. Somebody may hold a page for a moment.
void Userfault::move_back(char* to, char* from, Bytes bytes) const {
  constexpr int kTries = 10'000;
  int tries = 0;
  for (Run run = first_moved(from, to, bytes); run.bytes > 0; run = first_moved(from, to, bytes)) {
    Bytes counted_bytes = 0;
    const int error = move_some(to + run.at, from + run.at, run.bytes, counted_bytes);
    if (error == 0 || counted_bytes > 0) {
      continue;
    }
    if (++tries == kTries) {
      end_run(
          fmt::format("half of {} of the program's memory can be moved neither on nor back: {}; "
                      "ending it before data is lost",
                      format_bytes(bytes), std::strerror(error)));
    }
    sched_yield();
  }
}

}  // namespace spillway::host
