// What can be seen of a running program's platform from outside, whatever it runs on: budgets, what
// has happened, and whether it is whole. Recorders and reports need no more. Layer: platform,
// common. All functions are thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "engine/engine.h"
#include "platform/common/launch_log.h"

namespace spillway {

// What happened, besides what the engine counts. Times are sums.
struct ProgramStats {
  EngineStats engine;
  std::array<Bytes, kTierCount> used_bytes{};
  Bytes live_bytes = 0;  // allocated and neither freed nor retired
  Bytes live_peak_bytes = 0;
  // The most device memory that all of what was alive would have taken at once, wherever it was.
  Bytes frames_peak_bytes = 0;
  std::uint64_t page_faults = 0;   // threads that stopped at a block that was not there
  std::uint64_t write_faults = 0;  // ... at a block that was there, to write it for the first time
  TimeNs stalled_ns = 0;           // during which at least one thread was stopped
  TimeNs fault_wait_ns = 0;        // of all threads' stops, together
  TimeNs copy_ns = 0;              // that threads of ours spent copying
  Bytes copied_bytes = 0;          // in that time
  TimeNs processor_ns = 0;         // that threads of ours have run on a processor
  // The swap file: what was read and written, and how long at least one such request was under way.
  std::array<Bytes, 2> io_bytes{};
  std::array<TimeNs, 2> io_busy_ns{};
};

class ObservedPlatform {
 public:
  ObservedPlatform() = default;
  ObservedPlatform(const ObservedPlatform&) = delete;
  ObservedPlatform& operator=(const ObservedPlatform&) = delete;
  virtual ~ObservedPlatform() = default;

  virtual Status set_device_capacity(Bytes bytes) = 0;
  [[nodiscard]] virtual ProgramStats stats() const = 0;
  // Longest wait first.
  [[nodiscard]] virtual std::vector<LaunchWaits> waits() const = 0;
  // From now on notes there when what happens; nullptr: nowhere any more.
  virtual void log_events(EventLog* /*events*/) {}
  [[nodiscard]] virtual Bytes capacity_bytes(Tier tier) const = 0;
  // Waits until nothing moves.
  virtual void wait_until_idle() = 0;
  [[nodiscard]] virtual Status check_invariants() const = 0;
};

}  // namespace spillway
