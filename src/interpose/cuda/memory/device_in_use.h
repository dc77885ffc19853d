// What the device has in use by this process, as NVML tells it: what no hook has seen shows here.
// Layer: interpose, cuda. Thread-safe.
#pragma once

#include <string>

#include "base/mutex.h"
#include "base/units.h"
#include "platform/cuda/driver/driver.h"
#include "runtime/record/run_record.h"

namespace spillway::cuda {

// Names another library than libnvidia-ml.so.1; for tests.
inline constexpr const char* kNvmlVariable = "SPILLWAY_NVML";

class DeviceInUse {
 public:
  // Opens the library, and asks it nothing yet. `budget_bytes` are the space's to take.
  DeviceInUse(const Driver& driver, CuDevice device, Bytes budget_bytes);

  // Not by the program's threads: the first takes long. What the space has at that moment,
  // `used_bytes`, tells how much contexts take.
  void look(Bytes used_bytes);
  // No more, since the library may be about to end.
  void stop();
  void add_to(RunRecord& record);

 private:
  bool begin() SPILLWAY_REQUIRES(mutex_);
  void note_of_process(Bytes now_bytes, Bytes used_bytes) SPILLWAY_REQUIRES(mutex_);

  // As NVML has them.
  struct Calls {
    int (*init)() = nullptr;
    int (*device_by_uuid)(const char* uuid, void** device) = nullptr;
    int (*processes)(void* device, unsigned* count, void* processes) = nullptr;
    int (*memory)(void* device, void* memory) = nullptr;
  };
  enum class State { kNew, kAsked, kNotThere };

  Mutex mutex_;
  State state_ SPILLWAY_GUARDED_BY(mutex_) = State::kNotThere;
  Calls calls_ SPILLWAY_GUARDED_BY(mutex_);
  std::string uuid_ SPILLWAY_GUARDED_BY(mutex_);
  void* device_ SPILLWAY_GUARDED_BY(mutex_) = nullptr;
  Bytes budget_bytes_ SPILLWAY_GUARDED_BY(mutex_);
  bool first_ SPILLWAY_GUARDED_BY(mutex_) = true;
  Bytes contexts_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;      // of this process, at the first look
  Bytes all_at_first_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;  // of all processes
  Bytes peak_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  Bytes growth_peak_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
};

}  // namespace spillway::cuda
