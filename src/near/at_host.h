// The seam between libspillway_near and the space of a program that runs under `spillway run`:
// which operands of an update lie in host memory, and where. The preloaded library defines these
// functions, for the host's space or a GPU's; libspillway_near looks for them by name, and does
// without where nobody has them. Layer: near.
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

// Updates of `parts` parts of one tensor, with `count` operands each, those of the first part
// first: all of them begin to come to host memory, and `updates` gets their numbers. 0 where they
// are not the space's, or had better be used where they are. What writes nothing has no other
// place. On the host until the end no thread may use them anywhere else, there is one part, and
// `stream` is null. On a GPU the updates are in order with all launches, those of `stream` among
// them; nobody can give them up.
int spillway_at_host_begin(const spillway_at_host_operand* operands, size_t count, size_t parts,
                           void* stream, uint64_t* updates);
// On a GPU: whether begin could take any now.
int spillway_at_host_takes(void);
// On a GPU: waits for an update whose data has come; each is named once. 0: there is none any more.
uint64_t spillway_at_host_next(void);
// On the host: waits until they are there; 0 where they cannot come. Of one operand its bytes in
// order: how many extents there are, of which at most `most` are written to `to`.
size_t spillway_at_host_extents(uint64_t update, size_t operand, spillway_at_host_extent* to,
                                size_t most);
void spillway_at_host_end(uint64_t update);
// On a GPU: what lies there is final, and will be used at the host next.
void spillway_at_host_send(const void* start, size_t bytes);

#ifdef __cplusplus
}
#endif
