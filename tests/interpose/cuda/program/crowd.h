// Eight threads on one null stream, with what waits among what does not. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// Launches, copies that wait, allocations and frees; some on streams of their own beside it.
void crowd_on_the_null_stream(const Device& device);
// Also on streams of their own, and with events that one thread records and another's stream waits
// for.
void crowd_with_events(const Device& device);

}  // namespace spillway::cuda::test
