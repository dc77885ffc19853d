// How a program may order its streams. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// By batches of values, on a third stream. What comes behind the last must not take the room that
// what comes before the first still needs.
void orders_by_batches(const Device& device);
// By an event, of which the driver has refused a later recording on another stream.
void orders_by_refused_recordings(const Device& device);

}  // namespace spillway::cuda::test
