/* Spillway for C programs: memory that is larger than the device, moved ahead of need.
 * Layer: front, C API. C99; implemented by libspillway; docs/c-api.md explains it with an example.
 *
 * Names and the order of arguments follow the CUDA runtime's calls that do the same. Rules for all
 * functions, unless one says otherwise:
 * - They may be called by any thread at any time, except in the child of a fork.
 * - They return spillwaySuccess or an error code and then have changed nothing; every misuse that
 *   can be noticed is such an error. spillwayGetLastErrorMessage says what was wrong.
 * - Sizes are bytes, times nanoseconds. What a pointer argument points to is only read or written
 *   during the call, and stays the caller's.
 * - A failure to move data while the program touches memory (a broken disk, every tier full) cannot
 *   be returned to anybody: the process ends with one line on standard error and status 1, before
 *   it could read a wrong byte. */
#ifndef SPILLWAY_SPILLWAY_H
#define SPILLWAY_SPILLWAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Errors ------------------------------------------------------------------------------------*/

typedef enum spillwayError {
  spillwaySuccess = 0,
  spillwayErrorInvalidValue = 1,     /* an argument that is wrong by itself, or for this space */
  spillwayErrorMemoryAllocation = 2, /* the tiers together, or the process, have no more memory */
  spillwayErrorNotSupported = 3,     /* this machine, this build or the policy cannot do it */
  spillwayErrorIo = 4,               /* the operating system refused to read or write */
  spillwayErrorBusy = 5,             /* what runs now, a launch or a kernel, uses it */
  spillwayErrorMode = 6,             /* a channel is not in the mode that it takes: near.h */
  spillwayErrorUnknown = 999         /* a defect of Spillway */
} spillwayError_t;

/* "spillwayErrorInvalidValue", and a description in a few words; of a code that is none of the
 * above, something that says so. Static strings. Never fail. */
const char* spillwayGetErrorName(spillwayError_t error);
const char* spillwayGetErrorString(spillwayError_t error);
/* One line about the last call of this thread that failed: what, and what to do. "" if none has.
 * Valid until the next call of this thread that fails. Never fails. */
const char* spillwayGetLastErrorMessage(void);

/* --- Spaces ------------------------------------------------------------------------------------*/

typedef enum spillwayTier {
  spillwayTierDevice = 0, /* fast memory, what the program computes in */
  spillwayTierHost = 1,   /* memory below it */
  spillwayTierStorage = 2 /* the swap file */
} spillwayTier_t;

/* One address range over the three tiers, with a policy. A handle stays distinct from all others
 * for the life of the process, so that use after destruction is an error code, not a crash. */
typedef struct spillwaySpace_st* spillwaySpace_t;

/* New fields are added at the end; `size` tells the library which ones the caller knows. */
typedef struct spillwaySpaceOptions {
  size_t size;             /* of this structure, set by spillwaySpaceOptionsInit */
  uint64_t deviceBytes;    /* the budget, at least 16 MiB */
  uint64_t hostBytes;      /* 0: none */
  const char* storagePath; /* a folder, a new file with an extension, a block device; NULL: none */
  uint64_t storageBytes;   /* 0: what there is */
  const char* policy;      /* "deepum", "g10", "base_uvm", ...: `spillway run --help` lists them */
  uint32_t prefetchDegree; /* launches to look ahead; 0: the policy's own */
  uint32_t reserved;       /* must be 0 */
  double linkBytesPerS;    /* between device and host memory, each way; 0: as fast as it goes */
  uint64_t faultLatencyNs; /* before a block that faulted begins to move */
} spillwaySpaceOptions_t;

/* Fills in the defaults: what the environment variables that `spillway run` sets say
 * (SPILLWAY_DEVICE_MEMORY, _HOST_MEMORY, _STORAGE, _POLICY, ...), and without them three quarters
 * of the memory that is available now for the device, half of it for the host, no storage,
 * "deepum". `size` is sizeof(*options). Strings that it sets live as long as the process.
 * spillwayErrorInvalidValue: a variable that cannot be read, an unknown size. */
spillwayError_t spillwaySpaceOptionsInit(spillwaySpaceOptions_t* options, size_t size);

/* `options` may be NULL: the defaults. The strings in it are copied. Starts four threads, one
 * more where the kernel reports forks, and for storage one more, or up to eight where it permits no
 * io_uring.
 * spillwayErrorInvalidValue: a budget, a path or a policy's name that is wrong;
 * spillwayErrorNotSupported: no userfaultfd here;
 * spillwayErrorIo: the storage cannot be opened. */
spillwayError_t spillwaySpaceCreate(spillwaySpace_t* space, const spillwaySpaceOptions_t* options);
/* Frees all memory of the space; nobody may use it any more. NULL is allowed.
 * spillwayErrorBusy: a launch has not ended. A space that is still there when the process ends
 * needs no destruction. */
spillwayError_t spillwaySpaceDestroy(spillwaySpace_t space);

/* --- Memory ------------------------------------------------------------------------------------*/

/* Memory that reads as zeros, at an address that is a multiple of 2 MiB and never changes. It takes
 * room in a tier when it is first touched, in whole pages of 4 KiB; it moves in blocks of 2 MiB,
 * and two allocations never share one. Made for large arrays. Of size 0: success and *ptr is NULL.
 * spillwayErrorMemoryAllocation: the tiers together could not hold it. */
spillwayError_t spillwayMalloc(void** ptr, size_t size, spillwaySpace_t space);
/* `ptr` is what spillwayMalloc gave; NULL is allowed.
 * spillwayErrorInvalidValue: no allocation starts there; spillwayErrorBusy: a launch uses it. */
spillwayError_t spillwayFree(void* ptr, spillwaySpace_t space);

/* The following four name `count` > 0 bytes from `ptr` on, which must lie in one allocation, else
 * spillwayErrorInvalidValue. Memory moves in blocks of 2 MiB, counted from the allocation's start.
 */

/* Wishes that the data be brought to `dst`, and returns at once. To the device: the blocks in which
 * it lies come while there is room for them. To a tier below: the same as
 * spillwayMemPreEvictAsync. */
spillwayError_t spillwayMemPrefetchAsync(const void* ptr, size_t count, spillwayTier_t dst,
                                         spillwaySpace_t space);
/* Wishes that the data be copied down to `tier`, host or storage, so that its room on the device
 * can be had at once; returns at once. Of the blocks in which it lies. Memory that is used again
 * stays.
 * spillwayErrorInvalidValue: to the device; spillwayErrorNotSupported: a tier that the space has
 * none of. */
spillwayError_t spillwayMemPreEvictAsync(const void* ptr, size_t count, spillwayTier_t tier,
                                         spillwaySpace_t space);
/* The contents are dead and need not be moved any more. Reads give zeros or old values until the
 * memory is written again, each page by itself; what is written after the call is kept. Of blocks
 * that the range covers only in part nothing is discarded.
 * spillwayErrorBusy: a launch uses some of the blocks. */
spillwayError_t spillwayMemDiscard(const void* ptr, size_t count, spillwaySpace_t space);
/* The same, cheaper: the program promises to prefetch the memory to the device, or to name it in a
 * launch, before it reads or writes it again. What is written before that may be lost. */
spillwayError_t spillwayMemDiscardLazy(const void* ptr, size_t count, spillwaySpace_t space);

/* Of the device: the budget, and what of it holds no block now. More than `free` can be allocated:
 * that is what the tiers below are for. Either pointer may be NULL. */
spillwayError_t spillwayMemGetInfo(size_t* free, size_t* total, spillwaySpace_t space);

/* --- Launches ----------------------------------------------------------------------------------*/

typedef enum spillwayAccessMode {
  spillwayAccessRead = 0,
  spillwayAccessWrite = 1, /* may write a part; the rest keeps its value */
  spillwayAccessReadWrite = 2,
  spillwayAccessOverwrite = 3 /* writes every byte before it reads any: nothing need be fetched */
} spillwayAccessMode_t;

typedef struct spillwayAccess {
  const void* ptr; /* `count` > 0 bytes from here on, in one allocation */
  size_t count;
  spillwayAccessMode_t mode;
} spillwayAccess_t;

typedef uint64_t spillwayLaunch_t; /* never 0 */

/* A kernel begins that uses this memory: returns when all of it is on the device, where it stays
 * until the end. The blocks in which it lies are brought, and only those that it covers are taken
 * to be overwritten. Launches with the same name and the same accesses in the same order are the
 * same kernel again, which is what policies learn from; `name` is copied. A launch with more than
 * the device can hold runs on page faults instead. Inside a launch the program may touch other
 * memory of the space only if the budget leaves room for it. Launches of several threads may
 * overlap; one that does not fit beside those that run waits. spillwayErrorInvalidValue: a name or
 * accesses that are NULL, memory that is not of this space; spillwayErrorBusy: it does not fit
 * beside launches all of which are the calling thread's, and so would wait for ever. */
spillwayError_t spillwayLaunchBegin(spillwayLaunch_t* launch, const char* name,
                                    const spillwayAccess_t* accesses, size_t count,
                                    spillwaySpace_t space);
/* Any thread may end it, once. spillwayErrorInvalidValue: no launch of this space that runs. */
spillwayError_t spillwayLaunchEnd(spillwayLaunch_t launch, spillwaySpace_t space);

/* An iteration of the program's loop has ended: a training step, a time step. Policies that plan
 * ahead (g10 and its kin) record the second one, plan, and follow the plan from the third on;
 * without this call they page on demand. For the others it changes nothing. All launches of one
 * thread that make up an iteration should come in the same order each time. */
spillwayError_t spillwayIterationEnd(spillwaySpace_t space);

/* --- State -------------------------------------------------------------------------------------*/

/* Waits until nothing moves. What waits for room goes on waiting. */
spillwayError_t spillwaySynchronize(spillwaySpace_t space);

/* Sums since the space was made, except for what is there now. New fields are added at the end. */
typedef struct spillwayStatistics {
  uint64_t capacityBytes[3]; /* by spillwayTier_t, now */
  uint64_t usedBytes[3];     /* by spillwayTier_t, now */
  uint64_t allocatedBytes;   /* now */
  uint64_t allocatedPeakBytes;
  uint64_t movedBytes[3][3]; /* from one spillwayTier_t to another */
  uint64_t savedByDiscardBytes;
  uint64_t launches;
  uint64_t pageFaults;  /* a thread stopped at a block that was not there */
  uint64_t writeFaults; /* ... that was there, to write it for the first time */
  uint64_t evictions;   /* blocks moved away to make room */
  uint64_t preEvictions;
  uint64_t prefetchedBlocks;
  uint64_t prefetchesUsed;
  uint64_t prefetchesWasted;
  uint64_t stalledNs;   /* at least one thread was stopped, or a launch waited */
  uint64_t faultWaitNs; /* of all of them together */
  uint64_t copyNs; /* that Spillway's threads spent copying, waiting for a processor included */
  uint64_t processorNs; /* that Spillway's threads ran on a processor */
} spillwayStatistics_t;

/* `size` is sizeof(*statistics): as many fields are set as both sides know. */
spillwayError_t spillwayGetStatistics(spillwayStatistics_t* statistics, size_t size,
                                      spillwaySpace_t space);

#ifdef __cplusplus
}
#endif

#endif
