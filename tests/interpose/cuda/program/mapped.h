// Memory that a program reserves addresses for, creates and maps itself, as PyTorch's expandable
// segments, XLA, vLLM and RMM do. Test program.
#pragma once

#include "device.h"

namespace spillway::cuda::test {

// Segments of small pieces that grow and shrink; buffers lie across pieces.
void expandable_segments(const Device& device);
// A vector that grows: its pieces are unmapped and mapped again elsewhere, with what they hold.
void growing_vector(const Device& device);
// Each buffer has addresses of its own, and a table on the device names some.
void mapped_tables(const Device& device);
// What the driver says of such memory, and what it refuses.
void mapped_questions(const Device& device);
// What only the driver can do: memory at two addresses, memory that others may open, addresses of
// the driver's own.
void mapped_by_the_driver(const Device& device);
// A library that gives memory to others makes handles.
void mapped_by_nccl(const Device& device);
// PyTorch's allocator fills no reservation, however much memory there is.
void never_full_reservations(const Device& device);
// Before it is refused what it would map, it divides what it has of another kind again.
void divided_again(const Device& device);
void divided_less(const Device& device);
// A graph runs on what is mapped at its addresses when it is launched.
void mapped_graphs(const Device& device);
// Everything, at random, compared with what it should hold.
void random_mapped(const Device& device);

}  // namespace spillway::cuda::test
