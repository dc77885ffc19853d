// What the parts of the CUDA platform share: the engine, what is known of the program's launches
// and memory, and the lock that guards all of it. Layer: platform, cuda. docs/cuda.md.
//
// Locks, in this order: StreamOrder's `legacy` or a stream's `issuing`, a stream's `markers`, the
// platform's. Under the platform's lock nobody waits and nobody calls the driver, except for
// cuCtxGetCurrent, which only reads the calling thread's state.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "engine/engine.h"
#include "platform/common/failures.h"
#include "platform/common/launch_log.h"
#include "platform/common/process/eager_mutex.h"
#include "platform/common/stall_clock.h"
#include "platform/common/storage/storage_io.h"
#include "platform/common/storage/swap_file.h"
#include "platform/cuda/bypass/bypass_mode.h"
#include "platform/cuda/cuda_options.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/memory/block_backing.h"
#include "platform/cuda/memory/host_ranges.h"
#include "platform/cuda/memory/program_memory.h"
#include "platform/cuda/platform_part.h"
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

  // PlatformLock's, and of functions that let it go for a while.
  void lock() const SPILLWAY_ACQUIRE(platform_lock) SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    mutex.lock();
  }
  void unlock() const SPILLWAY_RELEASE(platform_lock) SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    mutex.unlock();
  }
  // Until `changed` is told, or that is so; without the lock meanwhile.
  template <typename Predicate>
  void wait(Predicate done) SPILLWAY_REQUIRES(platform_lock) SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    mutex.wait(changed, std::move(done));
  }
  void wait_for(std::condition_variable& told, std::chrono::nanoseconds most) const
      SPILLWAY_REQUIRES(platform_lock) SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    (void)mutex.wait_for(told, most);
  }

  // Ends the run: told once.
  void fail(const Error& error) SPILLWAY_REQUIRES(platform_lock) {
    if (!std::exchange(broken, true)) {
      failures.fatal(error);
    }
  }
  [[nodiscard]] Bytes bytes_of(BlockId id) const SPILLWAY_REQUIRES(platform_lock) {
    return engine.space().block(id).bytes;
  }

  // Do not change.
  Driver driver;
  CudaOptions options;
  Failures failures;
  std::optional<StorageIo> storage;

  mutable EagerMutex mutex;
  std::condition_variable changed;  // something that a thread may wait for
  // Threads of the program that wait in our code.
  std::uint32_t held SPILLWAY_GUARDED_BY(platform_lock) = 0;
  bool broken SPILLWAY_GUARDED_BY(platform_lock) = false;  // a fatal error has been told

  AdmissionGovernor governor SPILLWAY_GUARDED_BY(platform_lock);
  Engine engine SPILLWAY_GUARDED_BY(platform_lock);
  LaunchLog log SPILLWAY_GUARDED_BY(platform_lock);
  StallClock stalls;
  StreamWaits stream_waits;
  DeviceLaunches launches SPILLWAY_GUARDED_BY(platform_lock);
  StreamOrder order SPILLWAY_GUARDED_BY(platform_lock);
  BlockBacking backing SPILLWAY_GUARDED_BY(platform_lock);
  BypassMode bypass;  // calls() without the lock
  Recomputing recomputing SPILLWAY_GUARDED_BY(platform_lock);
  HostRanges host_ranges SPILLWAY_GUARDED_BY(platform_lock);
  // The engine's is larger while a launch runs that needs more. Written under the lock.
  std::atomic<Bytes> budget_bytes{0};
  // From CudaMechanism::begin on. It says itself what needs the lock.
  std::unique_ptr<ProgramMemory> memory;
  std::unique_ptr<CommandQueue> queue;  // from the platform's making on
};

// Holds the lock of a platform until the end of the scope, but for when it was unlocked meanwhile.
class SPILLWAY_SCOPED_CAPABILITY PlatformLock {
 public:
  explicit PlatformLock(const PlatformState& state) SPILLWAY_ACQUIRE(platform_lock)
      : state_(state) {
    state_.lock();
  }
  ~PlatformLock() SPILLWAY_RELEASE() {
    if (held_) {
      state_.unlock();
    }
  }
  PlatformLock(const PlatformLock&) = delete;
  PlatformLock& operator=(const PlatformLock&) = delete;

  void lock() SPILLWAY_ACQUIRE() {
    state_.lock();
    held_ = true;
  }
  void unlock() SPILLWAY_RELEASE() {
    held_ = false;
    state_.unlock();
  }

 private:
  const PlatformState& state_;
  bool held_ = true;
};

}  // namespace spillway::cuda
