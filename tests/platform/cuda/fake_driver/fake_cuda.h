/* What a test says to the fake driver, and asks of it. C, because the library may be reached by
 * dlsym as well as by linking. docs/testing.md has the rules and their reasons.
 * Times are nanoseconds, sizes bytes, rates probabilities in [0, 1]. All functions may be called
 * from any thread, except as said. */
#ifndef SPILLWAY_FAKE_CUDA_H
#define SPILLWAY_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct FakeCudaConfig {
  /* The machine. */
  uint64_t device_bytes;   /* all handles, and what contexts take, fit into it */
  uint64_t context_bytes;  /* what a context takes */
  int driver_version;      /* 13000 is 13.0 */
  int connections;         /* 0: CUDA_DEVICE_MAX_CONNECTIONS, or 8 */
  unsigned launches_ahead; /* launches of a stream that have not ended, before one more waits */
  int poison_handles;      /* new handles hold 0xA5, not zeros */
  int log_calls;           /* keep the calls for fake_cuda_log */
  int copies_move_nothing; /* copies and memsets only take their time */
  int nodes_unchecked;     /* copies and memsets that a program adds to a graph by hand are taken on
                              addresses without memory, until it is made executable */
  int64_t stuck_after_ns;  /* a call that waits at a closed gate while nothing has ended for so long
                              is a violation */

  /* How long things take; 0 is as fast as possible. */
  int64_t launch_ns;                 /* of every kernel, besides what it does */
  int64_t copy_ns;                   /* of every copy, besides its bytes */
  double copy_bytes_per_s;           /* 0: no limit; each copy has it to itself */
  int64_t access_ns;                 /* of cuMemSetAccess, for each handle */
  int64_t access_beside_copy_out_ns; /* the same while a copy out of the device runs */
  int64_t access_waits_ns; /* or it waits for the copy out that runs, at most so long, and just so
                              long if another has been given; then it takes its time */
  int64_t create_ns, release_ns, unmap_ns; /* of cuMemCreate, cuMemRelease, cuMemUnmap */

  /* What goes wrong, decided by the seed, the kind and how many of its kind there were before. */
  uint64_t seed;
  double create_fails;      /* cuMemCreate says out of memory */
  double access_fails;      /* cuMemSetAccess does */
  double host_memory_fails; /* cuMemHostRegister, cuMemHostAlloc, cuMemCreate of host memory do */
  double copy_refused;      /* a copy is refused when it is issued (unknown error), and not done */
  double copy_breaks;       /* a copy that was accepted does half, and its context is lost (ECC) */
  double copy_slow;         /* a copy takes slow_ns longer */
  double stream_stands;     /* a stream stands still for slow_ns before an operation */
  int64_t slow_ns;
} FakeCudaConfig;

/* 1 GiB, no delays, no failures, poisoned handles, 1,019 launches ahead, stuck after 5 s. */
void fake_cuda_default_config(FakeCudaConfig* config);

/* Starts afresh: whatever existed is gone, and what had been issued is not done. No driver call may
 * be under way in another thread, and no address of the old world be used any more. Registered
 * kernels stay. */
void fake_cuda_reset(const FakeCudaConfig* config);

/* From now on; the machine's part is ignored. What was decided before stays so. */
void fake_cuda_change(const FakeCudaConfig* config);

/* A rule that was broken. Most calls that break one are refused as well. */
typedef enum FakeCudaViolation {
  FAKE_CUDA_MAP_OVER_MAP,        /* mapped where something is mapped */
  FAKE_CUDA_PART_OF_HANDLE,      /* a part of a handle mapped, unmapped or given access */
  FAKE_CUDA_NOT_RESERVED,        /* mapped outside a reservation, or freed one that is in use */
  FAKE_CUDA_NOT_MAPPED,          /* unmapped or given access where nothing is mapped */
  FAKE_CUDA_BAD_HANDLE,          /* used what does not exist, or not any more */
  FAKE_CUDA_UNMAPPED_ACCESS,     /* ran on an address without memory, or without access */
  FAKE_CUDA_TAKEN_WHILE_RUNNING, /* unmapped, or access taken, under what runs there */
  FAKE_CUDA_HOST_MEMORY,         /* ran on host memory that is not pinned any more */
  FAKE_CUDA_RACE,                /* a copy or memset ran beside what writes, or reads, the same */
  FAKE_CUDA_CRASH,               /* the real driver dies here */
  FAKE_CUDA_WAITED_AT_GATE,      /* who opens gates called something that waits for a closed one */
  FAKE_CUDA_STUCK,               /* a call waited for a closed gate or stood, see stuck_after_ns */
  FAKE_CUDA_TOO_MANY_GATES,      /* gated streams hold up another: CUDA_DEVICE_MAX_CONNECTIONS */
  FAKE_CUDA_CALL_IN_HOST_FUNCTION, /* a driver call from within a stream's host function */
  FAKE_CUDA_WRONG_CONTEXT          /* stream, event and current context do not go together */
} FakeCudaViolation;

size_t fake_cuda_violations(void); /* how many since the last reset or clear */
/* The kind of one, and its text (cut to `bytes`, always terminated); -1 if there are not so many.
 */
int fake_cuda_violation(size_t index, char* text, size_t bytes);
void fake_cuda_clear_violations(void);

typedef struct FakeCudaCounters {
  uint64_t calls;             /* of the driver, in all */
  uint64_t refused_calls;     /* that returned an error; not ready is none */
  uint64_t injected_failures; /* of any kind, slowness included */
  uint64_t launches, copies_in, copies_out, copies_within, memsets; /* that have ended */
  uint64_t copied_in_bytes, copied_out_bytes;
  uint64_t creates, maps, unmaps, access_changes; /* handles, not calls */
  uint64_t peer_access_changes; /* access given to other devices, by address range */
  uint64_t gates_waited;        /* waits for a value that did not hold when the stream got there */
  uint64_t handle_bytes;        /* on the device now */
  uint64_t peak_handle_bytes;   /* at most since the last reset */
  uint64_t peak_device_bytes;   /* the same with contexts */
  uint64_t host_handle_bytes, pinned_bytes;
  /* What exists now; all 0 when everything has been given back. */
  uint64_t handles, mappings, reservations, contexts, streams, events;
} FakeCudaCounters;
void fake_cuda_counters(FakeCudaCounters* counters);

/* Calls in their order, with their arguments and results, if config.log_calls. */
size_t fake_cuda_log_lines(void);
/* One of them; returns its length, 0 if there are not so many. */
size_t fake_cuda_log(size_t index, char* text, size_t bytes);

/* Kernels are functions of the test, run by the stream's thread. */
typedef struct FakeCudaLaunch {
  const void* parameters; /* the block, laid out as registered; a copy */
  size_t parameter_bytes;
  unsigned grid[3], block[3], shared_bytes;
} FakeCudaLaunch;
typedef struct FakeCudaRange {
  uint64_t address, bytes;
  int writes;
} FakeCudaRange;
typedef struct FakeCudaKernel {
  const char* name;
  const size_t* parameter_offsets; /* both of `parameters` entries */
  const size_t* parameter_bytes;
  size_t parameters;
  void (*run)(const FakeCudaLaunch* launch);
  /* What it will touch: fills at most `room` and returns how many there are. Checked before it
   * runs. Null: every 8-byte word of the block that lies in a reservation, as 1 byte read. */
  size_t (*ranges)(const FakeCudaLaunch* launch, FakeCudaRange* ranges, size_t room);
} FakeCudaKernel;
/* A CUfunction, valid until the process ends. What the strings and arrays hold is copied. */
void* fake_cuda_register_kernel(const FakeCudaKernel* kernel);
/* The CUkernel of a CUfunction; it can be launched as well. */
void* fake_cuda_kernel_of(void* function);

/* 1: this thread opens gates: nothing that it calls may wait for a closed one, nor be stuck behind
 * a call that does. 0: it does not, but counts as one that does while its current context is not
 * the primary one. -1: not then either. */
void fake_cuda_thread_opens_gates(int yes);

/* The stream (null: the primary context's null stream) stands still before its next operation, or
 * goes on. */
void fake_cuda_hold_stream(void* stream, int hold);

/* From now on so many calls of cuMemSetAccess end, and others stand, but not longer than
 * stuck_after_ns; -1: all end. A reset lets all of them. */
void fake_cuda_let_access(int64_t calls);
int fake_cuda_access_stands(void); /* how many stand at this moment */

/* Whether the stream (null as above) is doing something at this moment, not waiting for it. */
int fake_cuda_stream_works(void* stream);

/* Memory is used from outside the driver, as a disk does by GPUDirect Storage, from the one to the
 * other: to the rules it is what runs there. Null if not all of it is mapped, which is reported. */
void* fake_cuda_use_begins(uint64_t address, uint64_t bytes, int writes);
void fake_cuda_use_ends(void* use);
/* Whether what is mapped there was made for it (gpuDirectRDMACapable). */
int fake_cuda_is_for_rdma(uint64_t address);

/* So much more of the device counts as in use by this process, by means that are no call of the
 * driver; it takes nothing away from others. Forgotten by a reset. */
void fake_cuda_use_unseen(uint64_t bytes);
uint64_t fake_cuda_unseen_bytes(void);

/* What cuDeviceGetAttribute answers. Unknown ones are 0. Forgotten by a reset. */
void fake_cuda_set_attribute(int attribute, int value);

#ifdef __cplusplus
}
#endif

#endif
