// loading LIBRARY: the first large allocation of the process is made by a library while it is loaded
// (dlopen), which nobody may look anything up meanwhile without waiting for.
#include <dlfcn.h>

#include "stranger.h"

int main(int argc, char** argv) {
  expect(argc > 1);
  void* const library = dlopen(argv[1], RTLD_NOW);
  expect(library != NULL);
  char** const start = (char**)dlsym(library, "loading_start");
  expect(start != NULL && wrong(*start, 64 * MIB, 3) == 0);
  puts("all there");
  return 0;
}
