// What is known of a program's launches: which are the same again, how long each kind has waited
// and for what, and, on request, one iteration of them for a planner. Layer: platform, common.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "engine/types.h"
#include "platform/common/event_log.h"
#include "policy/launch_hash.h"
#include "policy/recorded_iteration.h"

namespace spillway {

// What the launches with one execution id waited for.
struct LaunchWaits {
  std::string name;
  std::uint64_t launches = 0;
  std::uint64_t blocks = 0;  // that threads stopped at, or launches waited for
  TimeNs wait_ns = 0;
  TimeNs host_ns = 0;     // of that, for blocks from host memory
  TimeNs storage_ns = 0;  // ... from storage
  TimeNs fresh_ns = 0;    // ... for new memory, or for leave to write
};

class LaunchLog {
 public:
  // A launch begins: its execution id. The name of the first with that hash stays.
  ExecutionId launched(const LaunchHash& hash, std::string_view name);
  // Launches of this id have waited so long for a block that came from there. kNoExecution is
  // nobody's.
  void waited(ExecutionId execution, Source from, TimeNs waited_ns);
  // ... for others to end, so that there is room.
  void waited_for_room(ExecutionId execution, TimeNs waited_ns);
  // Longest wait first.
  [[nodiscard]] std::vector<LaunchWaits> longest_waits() const;

  // When it happens is noted there, too; nullptr for nowhere. It must outlive this.
  void set_events(EventLog* events) { events_ = events; }
  [[nodiscard]] EventLog* events() const { return events_; }

  // What happens from here on goes into the recording, if one runs; see IterationRecorder.
  void begin_recording() { recorder_.emplace(); }
  [[nodiscard]] std::optional<RecordedIteration> end_recording(TimeNs at_ns, TimeNs stalled_ns);
  [[nodiscard]] IterationRecorder* recorder() { return recorder_ ? &*recorder_ : nullptr; }

 private:
  ExecutionIds executions_;
  std::vector<LaunchWaits> waits_;  // by execution
  std::optional<IterationRecorder> recorder_;
  EventLog* events_ = nullptr;
};

}  // namespace spillway
