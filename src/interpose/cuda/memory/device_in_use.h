// What the device has in use by this process, as NVML tells it: what no hook has seen shows here.
// Layer: interpose, cuda. Thread-safe.
#pragma once

#include <mutex>
#include <string>

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
  bool begin();
  void note_of_process(Bytes now_bytes, Bytes used_bytes);

  // As NVML has them.
  struct Calls {
    int (*init)() = nullptr;
    int (*device_by_uuid)(const char* uuid, void** device) = nullptr;
    int (*processes)(void* device, unsigned* count, void* processes) = nullptr;
    int (*memory)(void* device, void* memory) = nullptr;
  };
  enum class State { kNew, kAsked, kNotThere };

  std::mutex mutex_;
  State state_ = State::kNotThere;
  Calls calls_;
  std::string uuid_;
  void* device_ = nullptr;
  Bytes budget_bytes_;
  bool first_ = true;
  Bytes contexts_bytes_ = 0;      // of this process, at the first look
  Bytes all_at_first_bytes_ = 0;  // of all processes
  Bytes peak_bytes_ = 0;
  Bytes growth_peak_bytes_ = 0;
};

}  // namespace spillway::cuda
