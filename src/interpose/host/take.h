// Memory from the space for whoever asks the allocator or the kernel for it, and back.
// Layer: interpose, host.
// Nothing here may be called by the thread that is making the space, nor by the space's own
// threads: those are "in service" and always get the next allocator's memory.
#pragma once

#include <cstddef>

namespace spillway::preload {

// Memory from the space, or nullptr: `refused` tells whether that means "out of memory" (errno says
// so) or "not ours".
[[nodiscard]] void* take(std::size_t bytes, std::size_t alignment, bool zeroed, bool& refused);
// For something that grows to so many bytes and cannot stay where it is: with room to grow further.
[[nodiscard]] void* take_with_room(std::size_t bytes, bool& refused);
// Whether an allocation of the space has grown, or shrunk, to so many bytes where it is.
[[nodiscard]] bool grow(void* start, std::size_t bytes);
// `start` is in the space. In the child of a fork the space is the parent's: what the child has of
// it goes with the child.
void give_back(void* start);

// So many bytes of an allocation of the space become those of another one, and it is given back.
void move_over(void* to, void* start, std::size_t bytes);

}  // namespace spillway::preload
