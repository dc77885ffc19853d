// See loading.c.
#include "stranger.h"

char* loading_start;

__attribute__((constructor)) static void allocate(void) {
  loading_start = malloc(64 * MIB);
  fill(loading_start, 64 * MIB, 3);
}
