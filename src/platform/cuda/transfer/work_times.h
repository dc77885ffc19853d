// Where time goes while data moves: calls of the driver that make and map memory, what the driver
// thread does, and what the link does while launches wait. Layer: platform, cuda. Any thread's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/units.h"
#include "platform/common/process/clock.h"

namespace spillway::cuda {

class WorkTimes {
 public:
  enum class What : std::uint8_t {
    // Calls of the driver.
    kCreate,
    kRelease,
    kMap,
    kAccess,
    kUnmap,
    // The driver thread: rounds, and how long they take; of that, looking after copies, in the
    // engine, asleep.
    kRound,
    kCopies,
    kEngine,
    kAsleep,
    // The link, and while a launch was the first of its stream and waited: how long copies were
    // under way in neither direction, into the device alone, out of it alone, both ways.
    kLinkIn,
    kLinkOut,
    kStalledIdle,
    kStalledIn,
    kStalledOut,
    kStalledBoth,
    // The program's thread: held because it is host-mapped ahead, for room, for what a copy or
    // memset
    // needs, for a stream wait, for what is made again on another stream or by another thread.
    kHeldAhead,
    kHeldForRoom,
    kHeldForCopy,
    kHeldForWait,
    kHeldForRemake,
    // Its calls that put a launch behind a stream wait, and completion markers behind launches.
    kPutWait,
    kMarker,
    // ... that take fingerprints, and that make again what was given up.
    kFingerprint,
    kRemake,
    // Between the device and the swap file past host memory, and what was refused there.
    kDirectRead,
    kDirectWrite,
    kDirectRefused,
  };
  static constexpr std::size_t kCount = static_cast<std::size_t>(What::kDirectRefused) + 1;
  // In that order; for people and JSON.
  static constexpr std::array<std::string_view, kCount> kNames{
      "create",       "release",       "map",           "access",        "unmap",
      "round",        "copies",        "engine",        "asleep",        "link_in",
      "link_out",     "stalled_idle",  "stalled_in",    "stalled_out",   "stalled_both",
      "held_ahead",   "held_for_room", "held_for_copy", "held_for_gate", "held_for_remake",
      "gated",        "ticket",        "fingerprint",   "remake",        "direct_read",
      "direct_write", "direct_refused"};

  void add(What what, TimeNs time_ns) {
    One& one = all_[static_cast<std::size_t>(what)];
    one.count.fetch_add(1, std::memory_order_relaxed);
    one.time_ns.fetch_add(time_ns, std::memory_order_relaxed);
  }
  // What `call` gives, which takes as long as it takes.
  template <typename Call>
  auto of(What what, const Call& call) {
    const TimeNs since_ns = now_ns();
    const auto result = call();
    add(what, now_ns() - since_ns);
    return result;
  }
  [[nodiscard]] std::uint64_t count(What what) const {
    return all_[static_cast<std::size_t>(what)].count.load(std::memory_order_relaxed);
  }
  [[nodiscard]] TimeNs time_ns(What what) const {
    return all_[static_cast<std::size_t>(what)].time_ns.load(std::memory_order_relaxed);
  }

 private:
  struct One {
    std::atomic<std::uint64_t> count{0};
    std::atomic<TimeNs> time_ns{0};
  };
  std::array<One, kCount> all_;
};

}  // namespace spillway::cuda
