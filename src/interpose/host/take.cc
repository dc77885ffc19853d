// See take.h.
#include "interpose/host/take.h"

#include <cerrno>
#include <cstring>

#include "interpose/host/mappings/limits.h"
#include "interpose/host/session.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"
#include "runtime/run/refused.h"

namespace spillway::preload {
namespace {

constexpr std::size_t kLargestAlignment = kBlockBytes;
// No process has as many addresses. Who asks for that looks whether it is refused, or has it from
// an overflow: nothing that a budget could mend, so it is the next allocator's to refuse.
constexpr std::size_t kMostBytes = std::size_t{1} << 47U;

bool may_be_taken(std::size_t bytes) {
  return bytes >= threshold_bytes() && bytes < kMostBytes && !in_service();
}

// What of the space the program would have then, in so many bytes more.
bool exceeds_limit(LargeHeap& heap, std::size_t bytes) {
  const std::size_t limit = limit_bytes();
  return limit != ~std::size_t{0} && heap.used_bytes() + bytes > limit;
}

}  // namespace

void* take(std::size_t bytes, std::size_t alignment, bool zeroed, bool& refused) {
  refused = false;
  if (!may_be_taken(bytes) || alignment > kLargestAlignment) {
    return nullptr;
  }
  Session* const here = session(true);
  if (here == nullptr) {
    return nullptr;
  }
  void* start = nullptr;
  bool zeros = zeroed;
  {
    const InService inside;
    if (exceeds_limit(*here->heap, bytes)) {
      refused = true;
      errno = ENOMEM;
      return nullptr;
    }
    Error error;
    start = here->heap->allocate(bytes, asker(), zeros, error);
    if (start == nullptr) {
      say(error.message);
      note_refused(bytes);
      refused = true;
      errno = ENOMEM;
      return nullptr;
    }
  }
  if (zeroed && !zeros) {
    std::memset(start, 0, bytes);  // by the program's thread, which may fault
  }
  return start;
}

void* take_with_room(std::size_t bytes, bool& refused) {
  refused = false;
  Session* const here = may_be_taken(bytes) ? session(true) : nullptr;
  if (here == nullptr) {
    return nullptr;
  }
  const InService inside;
  const bool exceeds = exceeds_limit(*here->heap, bytes);
  Error error;
  void* const start = exceeds ? nullptr : here->heap->allocate_with_room(bytes, error);
  if (start == nullptr) {
    if (!exceeds) {
      say(error.message);
      note_refused(bytes);
    }
    refused = true;
    errno = ENOMEM;
  }
  return start;
}

bool grow(void* start, std::size_t bytes) {
  Session* const here = session(false);
  const InService inside;
  if (here == nullptr) {
    return false;
  }
  const std::size_t had_bytes = here->heap->usable_bytes(start);
  return bytes < kMostBytes &&
         (bytes <= had_bytes || !exceeds_limit(*here->heap, bytes - had_bytes)) &&
         here->heap->grow(start, bytes);
}

void give_back(void* start) {
  if (Session* const here = session(false)) {
    const InService inside;
    here->heap->free(start);
  }
}

// Large ones go block by block, so that both never need room for all of it at once.
void move_over(void* to, void* start, std::size_t bytes) {
  constexpr std::size_t kLarge = 4 * kBlockBytes;
  Session* const here = bytes < kLarge ? nullptr : session(false);
  auto* const from = static_cast<char*>(start);
  std::size_t done = 0;
  for (; here != nullptr && bytes - done > kBlockBytes; done += kBlockBytes) {
    std::memcpy(static_cast<char*>(to) + done, from + done, kBlockBytes);
    const InService inside;
    here->heap->give_up({.start = from + done, .bytes = kBlockBytes});
  }
  std::memcpy(static_cast<char*>(to) + done, from + done, bytes - done);
  give_back(start);
}

}  // namespace spillway::preload
