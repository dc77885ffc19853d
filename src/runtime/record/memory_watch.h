// Tells a person that the system is nearly out of memory, before the kernel ends a process for it.
// Layer: runtime. Not thread-safe.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "platform/common/process/memory_room.h"

namespace spillway {

class MemoryWatch {
 public:
  // `say` gets the line, once in a run.
  MemoryWatch(std::function<MemoryRoom()> room, std::function<void(std::string_view)> say)
      : room_(std::move(room)), say_(std::move(say)) {}

  // `moved_bytes`: of host memory, what holds data that has left the device. Reads files.
  void look(Bytes moved_bytes);

 private:
  std::function<MemoryRoom()> room_;
  std::function<void(std::string_view)> say_;
  bool told_ = false;
};

}  // namespace spillway
