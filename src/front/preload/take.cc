// See take.h.
#include "front/preload/take.h"

#include <cerrno>
#include <cstring>

#include "front/preload/session.h"
#include "platform/common/say.h"
#include "platform/common/service_thread.h"

namespace spillway::preload {
namespace {

constexpr std::size_t kLargestAlignment = kBlockBytes;

}  // namespace

void* take(std::size_t bytes, std::size_t alignment, bool zeroed, bool& refused) {
  refused = false;
  if (bytes < threshold_bytes() || alignment > kLargestAlignment || in_service()) {
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
    Error error;
    start = here->heap->allocate(bytes, asker(), zeros, error);
    if (start == nullptr) {
      say(error.message);
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
  Session* const here = bytes < threshold_bytes() || in_service() ? nullptr : session(true);
  if (here == nullptr) {
    return nullptr;
  }
  const InService inside;
  Error error;
  void* const start = here->heap->allocate_with_room(bytes, error);
  if (start == nullptr) {
    say(error.message);
    refused = true;
    errno = ENOMEM;
  }
  return start;
}

bool grow(void* start, std::size_t bytes) {
  Session* const here = session(false);
  const InService inside;
  return here != nullptr && here->heap->grow(start, bytes);
}

void give_back(void* start) {
  if (Session* const here = session(false)) {
    const InService inside;
    here->heap->free(start);
  }
}

}  // namespace spillway::preload
