/* What a test says to the fake libcufile, and asks of it. C, because the library may be reached by
 * dlsym as well as by linking. It reads and writes the memory of the fake driver, to whose rules
 * such a transfer is something that runs there. All functions may be called from any thread. */
#ifndef SPILLWAY_FAKE_CUFILE_H
#define SPILLWAY_FAKE_CUFILE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct FakeCuFileConfig {
  int open_error;        /* of cuFileDriverOpen; 0: it opens */
  unsigned module_major; /* the version of nvidia-fs; 0.0 if it is not used */
  unsigned module_minor;
  unsigned control;   /* bits: 1 compatibility mode is allowed, 2 plain I/O, 4 fallback */
  int register_error; /* of cuFileHandleRegister; 0: the file is taken */
  int wrong_reads;    /* one byte of what is read is another */
  int lost_writes;    /* nothing is written, and all of it is said to be */

  /* What goes wrong, decided by the seed and how many transfers there were before; the first
   * `spared` transfers are not affected. */
  uint64_t seed;
  uint64_t spared;
  double refused;   /* -5008, and nothing is moved */
  double too_short; /* the first half is moved */
  double fails;     /* -1 and fails_with, and nothing is moved */
  int fails_with;
  int64_t slow_ns; /* every transfer takes so much longer */
  int held;        /* what has begun does not go on before this is 0 again */
} FakeCuFileConfig;

/* nvidia-fs 2.17, and nothing goes wrong; two transfers are spared: the trial's. */
void fake_cufile_default_config(FakeCuFileConfig* config);

typedef struct FakeCuFileCounters {
  uint64_t opens, handles; /* handles: registered now */
  uint64_t begun;
  uint64_t reads, writes; /* whole ones */
  uint64_t read_bytes, write_bytes;
  uint64_t refused, too_short, failed; /* injected */
  uint64_t wrong_calls;                /* without a context, a handle, pages, memory for RDMA */
} FakeCuFileCounters;

/* Starts afresh: the driver is as it was before it was opened first. */
void fake_cufile_reset(const FakeCuFileConfig* config);
void fake_cufile_change(const FakeCuFileConfig* config);
void fake_cufile_counters(FakeCuFileCounters* counters);

#ifdef __cplusplus
}
#endif

#endif
