// An engine_world.h whose platform stops first writes, and threads that touch its memory.
#pragma once

#include "engine/engine_world.h"

namespace spillway {

inline EngineOptions tracking(std::uint64_t device, std::uint64_t host, std::uint64_t storage = 0) {
  EngineOptions options = one_at_a_time(device, host, storage);
  options.tracks_writes = true;
  return options;
}

inline void touch(World& world, AllocationId id, bool write) {
  const std::array faults{
      ThreadFault{.block = world.engine.space().allocation(id).first_block, .write = write}};
  world.engine.thread_faults({}, faults);
  world.check();
}

inline void touch_through(World& world, AllocationId id, bool write) {
  touch(world, id, write);
  world.finish_all();
}

}  // namespace spillway
