// See memory_watch.h.
#include "runtime/record/memory_watch.h"

#include <fmt/format.h>

namespace spillway {

void MemoryWatch::look(Bytes moved_bytes) {
  constexpr Bytes kPart = 4;  // of what should stay for the program
  if (told_ || moved_bytes == 0) {
    return;
  }
  const MemoryRoom room = room_();
  if (room.left_bytes >= room.kept_bytes() / kPart) {
    return;
  }
  told_ = true;
  say_(fmt::format(
      "memory is nearly out: {}, and {} hold data that has left the device; when none "
      "is left the kernel ends a process: run it with less --host-memory{}",
      room.text(), format_bytes(moved_bytes), room.is_group ? ", or give the group more" : ""));
}

}  // namespace spillway
