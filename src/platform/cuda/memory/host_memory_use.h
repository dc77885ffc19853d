// Host memory: what is pinned when, how much of it can be promised, and what happens where the
// system has no more to spare. Layer: platform, cuda. docs/cuda.md ("Little host memory"). With the
// platform's lock held, except where a function says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "platform/common/process/memory_room.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/memory/host_budget.h"
#include "platform/cuda/memory/host_memory.h"
#include "platform/cuda/platform_part.h"

namespace spillway::cuda {

class HostMemoryUse : public PlatformPart {
 public:
  HostMemoryUse(PlatformState& state, PlatformParts& parts);

  // The driver thread's, without the lock: when the engine's context is there, and for the last
  // time.
  Status start(CuContext context);
  void end();

  // Pins ahead for what is alive and cannot be on the device.
  void want_host() SPILLWAY_REQUIRES(platform_lock);
  void want_pinned(Bytes bytes) SPILLWAY_REQUIRES(platform_lock);
  // What launches use over the link, or have had room made for.
  [[nodiscard]] Bytes most_host_mapped_bytes() const SPILLWAY_REQUIRES(platform_lock);
  // The system had no host memory for launches to use; and whether it may have some again. The
  // latter lets go.
  void no_host_mapped_memory() SPILLWAY_REQUIRES(platform_lock);
  void look_for_host_mapped_memory() SPILLWAY_REQUIRES(platform_lock);
  // Before more is promised than is there: asks the system what it can spare. Lets go.
  void look_for_room(Bytes bytes) SPILLWAY_REQUIRES(platform_lock);
  void note_room(const MemoryRoom& room) SPILLWAY_REQUIRES(platform_lock);
  // What can be promised with so much host memory.
  [[nodiscard]] Bytes most_promised_bytes(Bytes host_bytes) const SPILLWAY_REQUIRES(platform_lock);
  // Tells the program's memory of it.
  void set_limits() SPILLWAY_REQUIRES(platform_lock);
  // What ends the run where memory that was promised does not come.
  [[nodiscard]] Error out_of_host_memory() const SPILLWAY_REQUIRES(platform_lock);

  [[nodiscard]] HostBudget& budget() SPILLWAY_REQUIRES(platform_lock) { return budget_; }
  [[nodiscard]] HostMemory& pinned() { return *pinned_; }
  [[nodiscard]] const HostMemory& pinned() const { return *pinned_; }
  // When something was born last. Any thread's, without the lock.
  [[nodiscard]] Bytes live_bytes() const { return live_bytes_.load(std::memory_order_relaxed); }

 private:
  // HostMemory's thread's, without the lock.
  [[nodiscard]] Bytes spare_bytes(Bytes pinned_bytes) const;
  void host_is_short(bool is_short);
  void host_grown(std::uint64_t at, Bytes bytes);
  void host_ended(const Error& error);

  HostBudget budget_ SPILLWAY_GUARDED_BY(platform_lock);
  std::unique_ptr<HostMemory> pinned_;
  std::atomic<Bytes> live_bytes_{0};  // written under the lock
};

}  // namespace spillway::cuda
