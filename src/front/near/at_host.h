// The seam between libspillway_near and the space of a program that runs under `spillway run`:
// which operands of an update lie in host memory, and where. The preloaded library defines these
// functions; libspillway_near looks for them by name, and does without where nobody has them.
// Layer: front, near.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  void* start;
  size_t bytes;
  int writes;
} spillway_at_host_operand;

typedef struct {
  char* at;
  size_t bytes;
} spillway_at_host_extent;

// The operands begin to come to host memory. 0 where they are not the space's, or had better be
// used where they are. Until the end no thread may use them anywhere else.
uint64_t spillway_at_host_begin(const spillway_at_host_operand* operands, size_t count);
// Waits until they are there; 0 where they cannot come. Of one operand its bytes in order: how many
// extents there are, of which at most `most` are written to `to`.
size_t spillway_at_host_extents(uint64_t update, size_t operand, spillway_at_host_extent* to,
                                size_t most);
void spillway_at_host_end(uint64_t update);

#ifdef __cplusplus
}
#endif
