// Limits that the program sets to its own memory once there is a space (RLIMIT_AS, RLIMIT_DATA).
// Layer: interpose, host.
// The kernel counts all addresses of the space, of which the program may use few; kept to the
// letter, such a limit would leave it nothing. So the kernel's is that much higher than what the
// program has asked for, and is told. What the program has of the space is compared with it here.
#pragma once

#include <cstddef>

namespace spillway::preload {

// Of addresses, by this process.
[[nodiscard]] std::size_t mapped_bytes();
// So many of them are the space's. By who has made it.
void space_takes(std::size_t bytes);
// What the program allows itself; the largest number where it has said nothing.
[[nodiscard]] std::size_t limit_bytes();

// As the system call, for the calling process or another.
int limit_process(int process, int resource, const void* wanted, void* before);

}  // namespace spillway::preload
