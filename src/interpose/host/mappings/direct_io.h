// What lets devices write the program's memory past the processor: files that are opened for direct
// I/O, device files, sockets of some kinds, rings. Who has pinned a page may write it at any time,
// and nobody sees it; the space must know before the first page can be pinned (expect_pins).
// Layer: interpose, host.
#pragma once

namespace spillway::preload {

// A file has been opened with these flags, and is about to be the program's. Safe in signal
// handlers; keeps errno. `path` may be anything that the kernel has read.
void note_opened(const char* path, int flags);
// A file has these flags from now on, or is about to.
void note_flags(int flags);
// A socket of this domain is about to be made.
void note_socket(int domain);
// The program's descriptors that are open already. By one of the program's threads.
void note_open_descriptors();

}  // namespace spillway::preload
