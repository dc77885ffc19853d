// The driver as a program comes to it, in one of the ways that real ones use. Test program.
#pragma once

#include <string>

#include "fake_cuda.h"
#include "platform/cuda/driver/driver_calls.h"
#include "program_calls.h"

namespace spillway::cuda::test {

// All calls by symbol, and what a test says to the fake driver.
struct Calls {
#define SPILLWAY_CALL(field, symbol, since, parameters) CuResult(*symbol) parameters = nullptr;
  SPILLWAY_CUDA_CALLS(SPILLWAY_CALL)
#undef SPILLWAY_CALL
#define SPILLWAY_CALL(symbol, since, parameters) CuResult(*symbol) parameters = nullptr;
  FAKE_PROGRAM_CALLS(SPILLWAY_CALL)
#undef SPILLWAY_CALL
  decltype(&fake_cuda_default_config) default_config = nullptr;
  decltype(&fake_cuda_reset) reset = nullptr;
  decltype(&fake_cuda_change) change = nullptr;
  decltype(&fake_cuda_register_kernel) register_kernel = nullptr;
  decltype(&fake_cuda_kernel_of) kernel_of = nullptr;
  decltype(&fake_cuda_violations) violations = nullptr;
  decltype(&fake_cuda_violation) violation = nullptr;
  decltype(&fake_cuda_counters) counters = nullptr;
  decltype(&fake_cuda_hold_stream) hold_stream = nullptr;
  decltype(&fake_cuda_use_unseen) use_unseen = nullptr;
  decltype(&fake_cuda_thread_opens_gates) thread_opens_gates = nullptr;
  decltype(&fake_cuda_set_attribute) set_attribute = nullptr;
};

// linked, dlopen, default, libc, dlvsym, proc1, proc2, plugin. Ends the program if something is not
// found.
[[nodiscard]] Calls find_calls(const std::string& way);

// A launch of one thread; of no blocks: one that the driver refuses.
inline CuLaunchConfig one_thread(CuStream stream, unsigned blocks = 1) {
  return {.grid_x = blocks,
          .grid_y = 1,
          .grid_z = 1,
          .block_x = 1,
          .block_y = 1,
          .block_z = 1,
          .shared_bytes = 0,
          .stream = stream,
          .attributes = nullptr,
          .attribute_count = 0};
}

}  // namespace spillway::cuda::test
