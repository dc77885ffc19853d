// When what happened: launches on their streams, transfers, waits, for a timeline of a run. Layer:
// platform, common. docs/traces.md, "Timelines". Thread-safe. Bounded: what comes when a kind is
// full is only counted.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/units.h"
#include "engine/types.h"

namespace spillway {

// Launches that the log takes for the same (launch_log.h); dense from 0.
using LogRow = std::uint32_t;
inline constexpr LogRow kNoLogRow = ~LogRow{0};

struct LoggedLaunch {
  std::uint32_t stream = 0;
  LogRow row = kNoLogRow;
  TimeNs issued_ns = 0;
  TimeNs begin_ns = 0;
  TimeNs end_ns = 0;
};
struct LoggedTransfer {
  Tier from = Tier::kHost;
  Tier to = Tier::kHost;
  Bytes bytes = 0;
  TimeNs asked_ns = 0;  // by the engine
  TimeNs begin_ns = 0;  // its first bytes, where the platform knows when
  TimeNs end_ns = 0;
};
struct LoggedWait {
  enum class For : std::uint8_t { kHost, kStorage, kNewMemory, kRoom };
  LogRow row = kNoLogRow;
  For what = For::kRoom;
  TimeNs begin_ns = 0;
  TimeNs end_ns = 0;
};
struct LoggedEvents {
  std::vector<LoggedLaunch> launches;
  std::vector<LoggedTransfer> transfers;
  std::vector<LoggedWait> waits;
  std::vector<std::string> names;  // by row
  // What found no room.
  std::uint64_t dropped_launches = 0;
  std::uint64_t dropped_transfers = 0;
  std::uint64_t dropped_waits = 0;
  [[nodiscard]] std::uint64_t dropped() const {
    return dropped_launches + dropped_transfers + dropped_waits;
  }
};

class EventLog {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 18U;  // of each kind
  explicit EventLog(std::size_t most = kMost) : most_(most) {}

  // Launches of a stream end in their order. One begins when it is issued, but not before the one
  // in front of it has ended.
  void launch_began(std::uint32_t stream, LogRow row, std::string_view name, TimeNs at_ns);
  void launch_ended(std::uint32_t stream, TimeNs at_ns);
  // One that has arrived.
  void transferred(const LoggedTransfer& transfer);
  void waited(LogRow row, LoggedWait::For what, TimeNs begin_ns, TimeNs end_ns);

  // Up to now.
  [[nodiscard]] LoggedEvents events() const;

 private:
  struct Stream {
    std::deque<LoggedLaunch> running;
    TimeNs last_end_ns = 0;
  };
  const std::size_t most_;
  mutable Mutex mutex_;
  std::unordered_map<std::uint32_t, Stream> streams_ SPILLWAY_GUARDED_BY(mutex_);
  LoggedEvents events_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
