// What the parts of the CUDA platform share: the engine, what is known of the program's launches
// and memory, and the lock that guards all of it. Layer: platform, cuda. docs/cuda.md.
//
// Locks, in this order: StreamOrder's `legacy` or a stream's `issuing`, a stream's `markers`, the
// platform's. Under the platform's lock nobody waits and nobody calls the driver, except for
// cuCtxGetCurrent, which only reads the calling thread's state.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/engine.h"
#include "platform/common/failures.h"
#include "platform/common/launch_log.h"
#include "platform/common/stall_clock.h"
#include "platform/common/storage/storage_io.h"
#include "platform/common/storage/swap_file.h"
#include "platform/cuda/bypass/bypass_mode.h"
#include "platform/cuda/cuda_options.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/memory/block_backing.h"
#include "platform/cuda/memory/host_ranges.h"
#include "platform/cuda/memory/program_memory.h"
#include "platform/cuda/recompute/recomputing.h"
#include "platform/cuda/stream/device_launches.h"
#include "platform/cuda/stream/stream_order.h"
#include "platform/cuda/stream/stream_waits.h"
#include "platform/cuda/transfer/command_queue.h"
#include "policy/admission_governor.h"

namespace spillway::cuda {

struct PlatformState {
  // The policy and the mechanism must outlive it.
  PlatformState(const Driver& the_driver, const CudaOptions& the_options,
                std::optional<SwapFile> swap_file, Policy& policy, Mechanism& mechanism);

  // Ends the run: told once. With the lock held.
  void fail(const Error& error) {
    if (!std::exchange(broken, true)) {
      failures.fatal(error);
    }
  }
  // With the lock held.
  [[nodiscard]] Bytes bytes_of(BlockId id) const { return engine.space().block(id).bytes; }

  // Do not change.
  Driver driver;
  CudaOptions options;
  Failures failures;
  std::optional<StorageIo> storage;

  // Guards all that follows, but for StreamOrder's mutexes.
  mutable std::mutex mutex;
  std::condition_variable changed;  // something that a thread may wait for
  std::uint32_t held = 0;           // threads of the program that wait in our code
  bool broken = false;              // a fatal error has been told

  AdmissionGovernor governor;
  Engine engine;
  LaunchLog log;
  StallClock stalls;
  StreamWaits stream_waits;
  DeviceLaunches launches;
  StreamOrder order;
  BlockBacking backing;
  BypassMode bypass;
  Recomputing recomputing;
  HostRanges host_ranges;
  // The engine's is larger while a launch runs that needs more. Written under the lock.
  std::atomic<Bytes> budget_bytes{0};
  std::unique_ptr<ProgramMemory> memory;  // from CudaMechanism::begin on
  std::unique_ptr<CommandQueue> queue;    // likewise from the platform's making
};

}  // namespace spillway::cuda
