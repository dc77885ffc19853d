// What the parts of the CUDA platform share: the engine, what is known of the program's launches
// and memory, and the lock that guards all of it. Layer: platform, cuda. docs/cuda.md.
//
// Locks, in this order: StreamOrder's `legacy` or a stream's `issuing`, a stream's `markers`, the
// platform's. Under the platform's lock nobody blocks (who waits lets it go) and nobody calls the
// driver, except for cuCtxGetCurrent, which only reads the calling thread's state.
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
#include "platform/cuda/driver/in_context.h"
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
  // The policy must outlive it; so must the mechanism, which need not be made yet.
  PlatformState(const Driver& the_driver, const CudaOptions& the_options,
                std::optional<SwapFile> swap_file, Policy& policy, Mechanism& mechanism);

  // Calls `call` without the lock, and has it again afterwards, also where `call` throws. Whatever
  // the lock guards may have changed by then.
  template <typename Call>
  auto without_lock(const Call& call) const
      SPILLWAY_REQUIRES(platform_lock) SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    const Unlocked until_the_end(mutex_);
    return call();
  }
  // The same for calls of the driver, with that context current.
  template <typename Call>
  CuResult call_in(CuContext context, const Call& call) const SPILLWAY_REQUIRES(platform_lock) {
    return without_lock([&] { return in_context(driver, context, call); });
  }
  // Until `done`, which is asked again whenever `changed` is told; without the lock meanwhile.
  template <typename Predicate>
  void wait(Predicate done) SPILLWAY_REQUIRES(platform_lock) SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    mutex_.wait(changed, std::move(done));
  }
  void wait_for(std::condition_variable& told, std::chrono::nanoseconds most) const
      SPILLWAY_REQUIRES(platform_lock) SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    (void)mutex_.wait_for(told, most);
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

  // Need no lock.
  Driver driver;
  CudaOptions options;
  Failures failures;
  std::optional<StorageIo> storage;

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

 private:
  friend class PlatformLock;
  class Unlocked {
   public:
    explicit Unlocked(EagerMutex& mutex) SPILLWAY_NO_THREAD_SAFETY_ANALYSIS : mutex_(mutex) {
      mutex_.unlock();
    }
    ~Unlocked() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

   private:
    EagerMutex& mutex_;
  };

  mutable EagerMutex mutex_;
};

// Holds the lock of a platform until the end of the scope, or until it is unlocked.
class SPILLWAY_SCOPED_CAPABILITY PlatformLock {
 public:
  explicit PlatformLock(const PlatformState& state)
      SPILLWAY_ACQUIRE(platform_lock) SPILLWAY_NO_THREAD_SAFETY_ANALYSIS : mutex_(state.mutex_) {
    mutex_.lock();
  }
  ~PlatformLock() SPILLWAY_RELEASE() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    if (held_) {
      mutex_.unlock();
    }
  }
  PlatformLock(const PlatformLock&) = delete;
  PlatformLock& operator=(const PlatformLock&) = delete;

  // Before the end of the scope.
  void unlock() SPILLWAY_RELEASE() SPILLWAY_NO_THREAD_SAFETY_ANALYSIS {
    held_ = false;
    mutex_.unlock();
  }

 private:
  EagerMutex& mutex_;
  bool held_ = true;
};

}  // namespace spillway::cuda
