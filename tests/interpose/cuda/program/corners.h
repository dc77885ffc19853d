// What programs may do with memory that is elsewhere, and what would lose it if it were taken for
// something else. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// A copy into live memory, and a memset of some, are captured and never run: it keeps its bytes.
void captured_and_never_run(const Device& device);
// The driver refuses a copy: its target keeps its bytes.
void refused_copies(const Device& device);
// Memory is asked to leave and to come back, as scripts do by the Python package.
void asked_ahead(const Device& device);
// A copy waits for a value that is written behind a kernel which reads what it copies to.
void read_before_a_copy(const Device& device);
// A kernel is given a table, and a table that names that one.
void tables_of_tables(const Device& device);
// A kernel is given a list that stands in pinned host memory.
void lists_on_host(const Device& device);
// Another device is given access to the memory, which then comes and goes.
void shared_with_peers(const Device& device);
// A table is written after the graph that reads it has been made executable.
void late_tables(const Device& device);
// Each of two contexts has a null stream.
void two_contexts(const Device& device);

}  // namespace spillway::cuda::test
