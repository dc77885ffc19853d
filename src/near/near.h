// libspillway_near.so: steps of an optimizer on the processor, with PyTorch's bits, for callers in
// C and for python/spillway/near. All functions are thread-safe; objects may be used by several
// threads at once until they are freed. Layer: near.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// What a caller was compiled for. It grows when a structure or a function changes its meaning.
enum { SPILLWAY_NEAR_ABI = 2 };
int spillway_near_abi(void);

enum { SPILLWAY_NEAR_ADAM = 0, SPILLWAY_NEAR_SGD = 1, SPILLWAY_NEAR_ADAGRAD = 2 };
enum {
  SPILLWAY_NEAR_LOOP_CPU = 0,
  SPILLWAY_NEAR_FUSED_CPU = 1,
  SPILLWAY_NEAR_LOOP_CUDA = 2,
  SPILLWAY_NEAR_FOREACH_CUDA = 3,
  SPILLWAY_NEAR_FUSED_CUDA = 4
};
enum { SPILLWAY_NEAR_FLOAT32 = 0, SPILLWAY_NEAR_BFLOAT16 = 1 };

// The form of MKL's vmsSqrt: roots of `count` numbers, `in` may be `out`.
typedef void (*spillway_near_square_roots)(int count, const float* in, float* out, int64_t mode);
// The form of MKL_Set_Num_Threads_Local: sets how many threads MKL uses for calls by the calling
// thread, and returns what was set before; 0: nothing, the process's number counts.
typedef int (*spillway_near_set_threads)(int threads);

// What an optimizer keeps from step to step (optimizer/update.h says what each means).
typedef struct {
  uint32_t rule;
  uint32_t variant;
  uint32_t parameter_type;
  uint32_t gradient_type;
  uint32_t decoupled_decay;
  uint32_t amsgrad;
  uint32_t maximize;
  uint32_t nesterov;
  uint32_t torch_threads;       // torch.get_num_threads(): cuts tensors in a loop, and so bits
  uint32_t compute_capability;  // of fused on a GPU: 90 for an H100; 0: the oldest
  spillway_near_square_roots square_roots;  // null: IEEE's
  int64_t square_roots_mode;
  uint32_t coupled_decay;  // Adam: a step's weight_decay is not 0, without decoupled_decay
  uint32_t reserved;       // 0
  spillway_near_set_threads square_roots_threads;  // of the library of square_roots, or null
} spillway_near_options;

// One step's numbers.
typedef struct {
  double step;
  double learning_rate;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  double momentum;
  double dampening;
  double learning_rate_decay;
  double gradient_scale;
} spillway_near_step;

// A tensor's update: contiguous, results where the inputs are or where nothing of them is. What the
// rule does not have is null.
typedef struct {
  spillway_near_step step;
  uint64_t elements;
  const void* parameter;
  const void* gradient;
  const void* first;
  const void* second;
  const void* max_second;
  void* parameter_out;
  void* first_out;
  void* second_out;
  void* max_second_out;
  void* gradient_out;
} spillway_near_tensor;

typedef struct spillway_near_update spillway_near_update;
typedef struct spillway_near_pool spillway_near_pool;

// Null where the bits of this variant cannot be had or the options contradict each other; `why`
// then holds one line, cut at `why_bytes`.
spillway_near_update* spillway_near_make(const spillway_near_options* options, char* why,
                                         size_t why_bytes);
void spillway_near_free(spillway_near_update* update);
// Read and written for one element.
uint64_t spillway_near_bytes_per_element(const spillway_near_update* update);

// `threads` threads, the caller's among them; 0: as many as there are processors. Null where the
// system gives none, as `why` says.
spillway_near_pool* spillway_near_pool_make(uint32_t threads, char* why, size_t why_bytes);
// Not while it runs. Not in the child of a fork: there a pool has no threads, and all runs in the
// caller's.
void spillway_near_pool_free(spillway_near_pool* pool);
uint32_t spillway_near_pool_threads(const spillway_near_pool* pool);

// Updates all tensors and returns when they are done. One run at a time in a pool: others wait.
// Threads treat subnormal numbers as the caller's does. A null pool: in the caller's thread alone.
void spillway_near_run(spillway_near_pool* pool, const spillway_near_update* update,
                       const spillway_near_tensor* tensors, size_t count);
// Elements [begin, end) of one tensor, in the caller's thread. `begin` is a multiple of 64, `end`
// is one or the tensor's end.
void spillway_near_run_range(const spillway_near_update* update, const spillway_near_tensor* tensor,
                             uint64_t begin, uint64_t end);
// Writes zeros, each part by the thread that will update it: pages lie near where they are used,
// and are large ones where the system gives them and nobody has written there before.
void spillway_near_zero(spillway_near_pool* pool, void* start, uint64_t bytes);

// --- Tensors on a GPU ---------------------------------------------------------------------------

// 1 if spillway_near_update_on_gpu could take any now; 0 where everything fits on the device, while
// a stream is captured, and outside `spillway run`.
int spillway_near_takes_on_gpu(void);
// Issues updates of tensors that lie in the space of a program under `spillway run`, by their
// addresses on the device, and returns at once: each comes behind all launches that were issued
// before and use the same memory, whatever their stream, and before those that are issued later.
// `stream`: the CUstream on which the program would have launched it. taken[i]: 1 if tensor i will
// be updated at the host, as a whole; 0 if the caller has the device do it. What is computed stays
// as it was when this was called; `pool` and `update` may be freed at any time.
// `gradient_scale`, `found_inf`: a float on the device each, or null, read when the updates run:
// gradients are divided by the one, and nothing is changed where the other is not 0.
void spillway_near_update_on_gpu(spillway_near_pool* pool, const spillway_near_update* update,
                                 const spillway_near_tensor* tensors, size_t count, void* stream,
                                 uint8_t* taken, const float* gradient_scale,
                                 const float* found_inf);
// Returns when all updates that were taken have ended. At once in the child of a fork.
void spillway_near_wait(void);
// The gradient is final, and its update will be issued next: its bytes begin to leave the device
// when the launch that writes them has ended and nothing more urgent moves. A hint.
void spillway_near_send_gradient(const void* gradient, size_t bytes);

#ifdef __cplusplus
}
#endif
