// File descriptors that the program in which we live cannot reach. Layer: platform, common.
// A program may close every descriptor that it has not opened, copy one over any number, and count
// on getting the lowest that is free. Threads of ours therefore have a table of descriptors to
// themselves; only what the program's own threads must use, too, is in the program's table, at a
// high number.
#pragma once

#include <functional>
#include <vector>

namespace spillway {

// Runs `open_all` in a service thread with a table of its own, without the program's descriptors
// but for standard error; threads that it starts share that table. The descriptors that it returns
// are in the caller's table as well when this returns, under the same numbers, closed on exec.
// Where the system has no such tables everything is in the caller's. By one thread at a time.
void with_own_descriptors(const std::function<std::vector<int>()>& open_all);

// The same open file under a high number, closed on exec; `fd` is closed. `fd` itself where there
// is no such number.
[[nodiscard]] int at_high_number(int fd);

// Closes those numbers, both included, in the caller's table.
void close_between(unsigned first, unsigned last);

}  // namespace spillway
