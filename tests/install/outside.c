/* A program in C99 that somebody else wrote against an installed libspillway: sums arrays of which
 * half fit on the device. Exit status 77 where the machine cannot run Spillway. */
#include <spillway/spillway.h>
#include <stdio.h>
#include <stdlib.h>

#define ARRAYS 4
#define COUNT ((size_t)1 << 20)

static void check(spillwayError_t error) {
  if (error != spillwaySuccess) {
    fprintf(stderr, "%s: %s: %s\n", spillwayGetErrorName(error), spillwayGetErrorString(error),
            spillwayGetLastErrorMessage());
    exit(error == spillwayErrorNotSupported ? 77 : 1);
  }
}

int main(void) {
  spillwaySpaceOptions_t options;
  spillwaySpace_t space;
  double* arrays[ARRAYS];
  double sum = 0;
  spillwayStatistics_t statistics;
  spillwayLaunch_t launch;
  int i;
  size_t at;

  check(spillwaySpaceOptionsInit(&options, sizeof(options)));
  options.deviceBytes = (uint64_t)16 << 20;
  options.hostBytes = (uint64_t)64 << 20;
  check(spillwaySpaceCreate(&space, &options));
  for (i = 0; i < ARRAYS; ++i) {
    spillwayAccess_t access;
    void* start = NULL;
    check(spillwayMalloc(&start, COUNT * sizeof(double), space));
    arrays[i] = start;
    access.ptr = start;
    access.count = COUNT * sizeof(double);
    access.mode = spillwayAccessOverwrite;
    check(spillwayLaunchBegin(&launch, "fill", &access, 1, space));
    for (at = 0; at < COUNT; ++at) arrays[i][at] = i + 1;
    check(spillwayLaunchEnd(launch, space));
  }
  for (i = 0; i < ARRAYS; ++i) {
    for (at = 0; at < COUNT; ++at) sum += arrays[i][at];
  }
  check(spillwayGetStatistics(&statistics, sizeof(statistics), space));
  if (statistics.movedBytes[spillwayTierHost][spillwayTierDevice] == 0) {
    fprintf(stderr, "nothing has moved\n");
    return 1;
  }
  for (i = 0; i < ARRAYS; ++i) check(spillwayFree(arrays[i], space));
  check(spillwaySpaceDestroy(space));
  printf("%.0f\n", sum / (double)COUNT);
  return 0;
}
