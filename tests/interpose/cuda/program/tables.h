// Tables of addresses on the device, over a long run. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// A table is left as it is while what it names is freed and made again where it was, and others
// come and go.
void kept_tables(const Device& device);
// A table is sent anew before each launch, in each way in which bytes are replaced: each launch
// uses little, all of them together more than the budget.
void replaced_tables(const Device& device);
// One is copied to another place of the same allocation before it is sent anew.
void shifted_tables(const Device& device);
// One is sent anew by a stream that waits for what is issued later, and that reads the one before.
void waiting_tables(const Device& device);
// One that is freed while its use is captured: the graph reads it when it runs.
void captured_tables(const Device& device);
// A segment of PyTorch's in which a table has died names nothing any more.
void dead_tables(const Device& device);
// What a launch costs whose list lies in a piece of pinned memory of 4 MiB: of numbers, and full of
// addresses. Prints a line of each: how many microseconds.
void full_lists(const Device& device);
// A list in the midst of a large piece of pinned memory, which goes to another place again and
// again.
void moving_lists(const Device& device);
// What a launch with two tables that name the same costs. Prints a line: for how many addresses
// how many microseconds.
void long_tables(const Device& device);
// What a launch with a table costs that has named one place of a tensor, and then thousands of
// others. Prints a line of each: after how many copies how many microseconds.
void interior_tables(const Device& device);

}  // namespace spillway::cuda::test
