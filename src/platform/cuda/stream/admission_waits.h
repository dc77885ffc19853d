// Where a thread of the program waits, for room, for ends and for memory, and the stream waits that
// let it go on instead. Layer: platform, cuda. Functions in which a thread of the program waits
// let the lock go meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "engine/engine.h"
#include "platform/cuda/platform_part.h"
#include "platform/cuda/stream/shared_wait.h"
#include "platform/cuda/stream/standstill.h"

namespace spillway::cuda {

class AdmissionWaits : public PlatformPart {
 public:
  AdmissionWaits(PlatformState& state, PlatformParts& parts);

  // --- The program's threads

  // Until the device is not too far behind for another launch.
  void hold_back() SPILLWAY_REQUIRES(platform_lock);
  // For what becomes true as launches end, which completion markers tell.
  void wait_until(const std::function<bool()>& done) SPILLWAY_REQUIRES(platform_lock);
  // For a thread that waits: a moment, after which it asks whether the device still runs, where
  // nothing has ended for long since `sign_ns`, when it began to wait or asked last.
  void wait_a_little(TimeNs& sign_ns) SPILLWAY_REQUIRES(platform_lock);

  // Before a launch is issued: whether blocks of these have no frames, and there are too few that
  // are nobody's; and the ends that may help.
  [[nodiscard]] bool lacks_room(std::span<const Access> accesses) const
      SPILLWAY_REQUIRES(platform_lock);
  void let_ends_come(StreamId id) SPILLWAY_REQUIRES(platform_lock);
  // A launch that the budget does not hold gets more.
  void make_up_room(const Launch& launch, std::string_view name) SPILLWAY_REQUIRES(platform_lock);

  // A launch that has been issued and lacks memory waits for it here, or gets a stream wait of its
  // own, or shares the one before it.
  void let_room_come(std::uint32_t tag) SPILLWAY_REQUIRES(platform_lock);
  void wait_for_release(std::uint32_t tag) SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] SharedWait::Launch for_shared_wait(std::uint32_t tag) const
      SPILLWAY_REQUIRES(platform_lock);
  [[nodiscard]] bool shares_wait(std::uint32_t tag, const SharedWait::Launch& launch) const
      SPILLWAY_REQUIRES(platform_lock);
  void put_wait(std::uint32_t tag, const SharedWait::Launch& issued)
      SPILLWAY_REQUIRES(platform_lock);

  // --- The driver thread, and whoever learns of ends

  // The engine's budget is ours again when no launch needs more.
  void follow_budget() SPILLWAY_REQUIRES(platform_lock);
  // Lets launches go that wait for each other in vain, or behind a device that stands still.
  void let_those_together_go() SPILLWAY_REQUIRES(platform_lock);
  void look_for_ends() SPILLWAY_REQUIRES(platform_lock);

 private:
  void let_go(std::uint32_t tag) SPILLWAY_REQUIRES(platform_lock);
  void let_next_go() SPILLWAY_REQUIRES(platform_lock);

  Standstill standstill_ SPILLWAY_GUARDED_BY(platform_lock);
  bool said_too_large_ SPILLWAY_GUARDED_BY(platform_lock) = false;
};

}  // namespace spillway::cuda
