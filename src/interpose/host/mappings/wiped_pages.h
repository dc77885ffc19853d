// Pages that the children of a fork find empty (MADV_WIPEONFORK): secrets, and the state of
// generators of random numbers. Layer: interpose, host.
// The kernel would empty them as well, but not what the space has moved elsewhere.
#pragma once

#include <cstddef>

#include "heap/large_heap.h"

namespace spillway::preload {

// Before a fork, while the heap can still be asked; and in the child.
void note_wiped_pages(LargeHeap& heap);
void wipe_pages_of_child();

// As madvise with MADV_WIPEONFORK, in a child, of memory that it has inherited.
int wipe_inherited_pages(void* start, std::size_t bytes);

}  // namespace spillway::preload
