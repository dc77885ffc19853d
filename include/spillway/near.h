/* The near device of Spillway for C programs: memory with an optimizer's kernel beside it, after
 * the paper "Synergistic Approach for Systems with AXDIMMs, GPUs, and NVMe Devices", in software.
 * Layer: front, C API. C99; implemented by libspillway; docs/near-memory.md explains it.
 *
 * Its memory lies in channels. A channel is in one of two modes: in normal mode the host alone
 * touches its memory, in acceleration mode its kernels alone do. Channels are independent of each
 * other.
 *
 * Rules are those of spillway.h: any thread may call any function at any time, except in the child
 * of a fork; a call that fails has changed nothing, but for a copy, of which some bytes may have
 * been moved when storage or the GPU has failed; spillwayGetLastErrorMessage says what was wrong.
 * Two copies at a time must not touch the same bytes if one of them writes those. */
#ifndef SPILLWAY_NEAR_H
#define SPILLWAY_NEAR_H

#include <spillway/spillway.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Devices -----------------------------------------------------------------------------------*/

/* A handle stays distinct from all others for the life of the process. */
typedef struct spillwayNear_st* spillwayNear_t;

/* New fields are added at the end; `size` tells the library which ones the caller knows. */
typedef struct spillwayNearOptions {
  size_t size;           /* of this structure, set by spillwayNearOptionsInit */
  uint32_t channels;     /* 1 to 64 */
  int32_t gpu;           /* the CUDA driver's number of the GPU to copy to and from */
  uint64_t channelBytes; /* of addresses in each channel; memory is taken where it is touched */
  uint32_t checkAccess;  /* 1: what the host touches in acceleration mode is noticed at the access:
                          * a line on standard error that names the channel, then SIGSEGV; 0: it
                          * goes unnoticed, but for the calls below, which refuse it in any case */
  uint32_t reserved;     /* must be 0 */
} spillwayNearOptions_t;

/* Two channels of 1 GiB, GPU 0, and accesses checked if this library was built for debugging.
 * `size` is sizeof(*options). spillwayErrorInvalidValue: an unknown size. */
spillwayError_t spillwayNearOptionsInit(spillwayNearOptions_t* options, size_t size);

/* `options` may be NULL: the defaults. Starts a thread for each channel, which is in normal mode.
 * The first device whose accesses are checked sets a handler for SIGSEGV, which hands on what is
 * not its own to the one before. spillwayErrorInvalidValue: options that no device has;
 * spillwayErrorMemoryAllocation: the process has no more addresses. */
spillwayError_t spillwayNearOpen(spillwayNear_t* near, const spillwayNearOptions_t* options);
/* Frees all that was allocated on it; nobody may use that any more. NULL is allowed.
 * spillwayErrorBusy: a kernel has not ended; spillwayNearSynchronize waits for it. */
spillwayError_t spillwayNearClose(spillwayNear_t near);

/* Storage for the device: `path` is a folder or the name of a new file, both of which leave nothing
 * behind, or a block device, whose contents are lost. `bytes`: how much of it; 0: what there is.
 * `*storage` is its number, from 0 on; it belongs to the device until that is closed.
 * spillwayErrorInvalidValue: it cannot be opened, or has less. */
spillwayError_t spillwayNearRegisterStorage(uint32_t* storage, const char* path, uint64_t bytes,
                                            spillwayNear_t near);

/* --- Memory ------------------------------------------------------------------------------------*/

/* For all three: of size 0: success, and NULL or 0. spillwayErrorMemoryAllocation: no room in one
 * piece; the other channels may have some. To free NULL or 0 is allowed.
 * spillwayErrorInvalidValue: no allocation of this device starts there;
 * spillwayErrorBusy: a copy or a kernel uses it. In either mode of its channel. */

/* Memory of a channel, which reads as zeros. The program may touch it while the channel is in
 * normal mode. Starts on a page of 4 KiB, and takes whole ones. */
spillwayError_t spillwayNearMalloc(void** ptr, size_t size, uint32_t channel, spillwayNear_t near);
spillwayError_t spillwayNearFree(void* ptr, spillwayNear_t near);
/* A place on storage. Its number may be added to, as an address, and is not given out again.
 * What it holds at first is anything. */
spillwayError_t spillwayNearMallocStorage(uint64_t* place, size_t size, uint32_t storage,
                                          spillwayNear_t near);
spillwayError_t spillwayNearFreeStorage(uint64_t place, spillwayNear_t near);
/* GPU memory, from the driver. spillwayErrorNotSupported: there is no driver, or no such GPU. */
spillwayError_t spillwayNearMallocGpu(uint64_t* address, size_t size, spillwayNear_t near);
spillwayError_t spillwayNearFreeGpu(uint64_t address, spillwayNear_t near);

/* --- Copies ------------------------------------------------------------------------------------*/

typedef enum spillwayNearSide {
  spillwayNearSideHost = 0,   /* memory of the process, whoever has allocated it */
  spillwayNearSideNear = 1,   /* a channel's memory */
  spillwayNearSideGpu = 2,    /* GPU memory, also the program's own */
  spillwayNearSideStorage = 3 /* a place on storage */
} spillwayNearSide_t;

typedef struct spillwayNearLocation {
  spillwayNearSide_t side;
  uint64_t address; /* a pointer, the GPU's address, or the place's number */
} spillwayNearLocation_t;

static inline spillwayNearLocation_t spillwayNearAtHost(const void* ptr) {
  spillwayNearLocation_t location = {spillwayNearSideHost, (uint64_t)(uintptr_t)ptr};
  return location;
}
static inline spillwayNearLocation_t spillwayNearAtNear(const void* ptr) {
  spillwayNearLocation_t location = {spillwayNearSideNear, (uint64_t)(uintptr_t)ptr};
  return location;
}
static inline spillwayNearLocation_t spillwayNearAtGpu(uint64_t address) {
  spillwayNearLocation_t location = {spillwayNearSideGpu, address};
  return location;
}
static inline spillwayNearLocation_t spillwayNearAtStorage(uint64_t place) {
  spillwayNearLocation_t location = {spillwayNearSideStorage, place};
  return location;
}

/* Returns when the bytes are there. From and to any side, in any alignment; between storage and
 * near or host memory straight where both begin on a page. On the GPU, in a stream of its own: what
 * the program's streams do there must have ended. Of 0 bytes: success.
 * spillwayErrorMode: a channel is in acceleration mode; spillwayErrorInvalidValue: not all bytes
 * are in one allocation of this device, or both ends overlap; spillwayErrorIo: storage or the
 * driver has failed, and the message says where. */
spillwayError_t spillwayNearMemcpy(spillwayNearLocation_t dst, spillwayNearLocation_t src,
                                   size_t count, spillwayNear_t near);

/* --- Modes -------------------------------------------------------------------------------------*/

typedef enum spillwayNearMode {
  spillwayNearModeNormal = 0,
  spillwayNearModeAcceleration = 1
} spillwayNearMode_t;

/* Does not wait. spillwayErrorBusy: kernels of the channel have not ended (spillwayNearSynchronize
 * waits for them), or a copy of another thread has not. In the mode that it asks for: success. */
spillwayError_t spillwayNearSetMode(uint32_t channel, spillwayNearMode_t mode, spillwayNear_t near);
spillwayError_t spillwayNearGetMode(spillwayNearMode_t* mode, uint32_t channel,
                                    spillwayNear_t near);

/* --- Kernels -----------------------------------------------------------------------------------*/

typedef enum spillwayNearType {
  spillwayNearFloat32 = 0,
  spillwayNearBfloat16 = 1
} spillwayNearType_t;

/* Whose bits: PyTorch's implementations round in different orders. */
typedef enum spillwayNearArithmetic {
  spillwayNearLoopCpu = 0,     /* one operator after the other, and foreach, on the CPU */
  spillwayNearFusedCpu = 1,    /* fused=True on the CPU */
  spillwayNearLoopCuda = 2,    /* one operator after the other on a GPU */
  spillwayNearForeachCuda = 3, /* foreach=True on a GPU */
  spillwayNearFusedCuda = 4    /* fused=True on a GPU */
} spillwayNearArithmetic_t;

/* One step of Adam or AdamW over a tensor and its states, all in one channel's memory. Results
 * replace what was there. New fields are added at the end. */
typedef struct spillwayNearAdam {
  size_t size;     /* of this structure, set by spillwayNearAdamInit */
  void* parameter; /* no two of the five overlap */
  const void* gradient;
  void* expAvg;
  void* expAvgSq;
  void* maxExpAvgSq;                /* NULL: not amsgrad */
  uint64_t count;                   /* elements, more than 0 */
  spillwayNearType_t parameterType; /* the states' as well */
  spillwayNearType_t gradientType;
  spillwayNearArithmetic_t arithmetic;
  uint32_t decoupledDecay;    /* 1: AdamW */
  uint32_t maximize;          /* 1: against the sign of the gradient */
  uint32_t torchThreads;      /* loop on the CPU, bf16: torch.get_num_threads(), 1 or more */
  uint32_t computeCapability; /* fused on a GPU: that GPU's, 90 for an H100; 0: the oldest */
  uint32_t reserved;          /* must be 0 */
  uint64_t step;              /* this one's number, from 1 on */
  double learningRate;
  double beta1;
  double beta2;
  double epsilon;
  double weightDecay;
  double gradientScale; /* fused only: gradients are divided by it */
} spillwayNearAdam_t;

/* PyTorch's defaults for Adam, step 1, fp32, no operands. `size` is sizeof(*adam). */
spillwayError_t spillwayNearAdamInit(spillwayNearAdam_t* adam, size_t size);

typedef uint64_t spillwayNearKernel_t; /* never 0 */

/* Runs on the channel behind the kernels that were launched there before; returns at once. The
 * operands stay allocated until it has ended. spillwayErrorMode: the channel is in normal mode;
 * spillwayErrorInvalidValue: operands that are NULL, overlap, are not aligned to their type, reach
 * beyond their allocation or lie elsewhere than in the channel;
 * spillwayErrorNotSupported: these bits cannot be had here. */
spillwayError_t spillwayNearAdamAsync(spillwayNearKernel_t* kernel, const spillwayNearAdam_t* adam,
                                      uint32_t channel, spillwayNear_t near);

/* Returns when the kernel has ended, with its outcome; as often as one likes.
 * spillwayErrorInvalidValue: this device has launched no such kernel. */
spillwayError_t spillwayNearWait(spillwayNearKernel_t kernel, spillwayNear_t near);
/* `*ended` is 1 if it has, else 0; once it has, the same errors. */
spillwayError_t spillwayNearPoll(int* ended, spillwayNearKernel_t kernel, spillwayNear_t near);
/* Waits for all kernels that were launched before, on all channels. */
spillwayError_t spillwayNearSynchronize(spillwayNear_t near);

/* --- State -------------------------------------------------------------------------------------*/

/* Sums since the device was opened. New fields are added at the end of both. */
typedef struct spillwayNearStatistics {
  uint64_t copiedBytes[4][4]; /* from one spillwayNearSide_t to another */
  uint64_t copies;            /* that have succeeded */
  uint64_t stagedBytes;       /* that went through a buffer on their way, of 2 MiB at a time */
} spillwayNearStatistics_t;

typedef struct spillwayNearChannelStatistics {
  uint64_t memoryBytes;
  uint64_t freeBytes; /* now */
  uint64_t kernels;   /* that have ended */
  uint64_t kernelNs;  /* for which one ran */
  uint64_t modeSwitches;
  uint64_t waitedNs; /* in spillwayNearWait and spillwayNearSynchronize, all threads together */
} spillwayNearChannelStatistics_t;

/* `size` is sizeof(*statistics): as many fields are set as both sides know. */
spillwayError_t spillwayNearGetStatistics(spillwayNearStatistics_t* statistics, size_t size,
                                          spillwayNear_t near);
spillwayError_t spillwayNearGetChannelStatistics(spillwayNearChannelStatistics_t* statistics,
                                                 size_t size, uint32_t channel,
                                                 spillwayNear_t near);

#ifdef __cplusplus
}
#endif

#endif
