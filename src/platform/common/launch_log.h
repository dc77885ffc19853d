// What is known of a program's launches: which are the same again, how long each kind has waited
// and for what, and, on request, one iteration of them for a planner. Layer: platform, common.
// Not thread-safe.
//
// Policies tell launches apart by execution id. People are told by rows: all launches of one name,
// and of one module where the launching thread's is known (current_module.h). What a launch's row
// is has no bearing on its execution id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "engine/types.h"
#include "platform/common/event_log.h"
#include "policy/prediction/launch_hash.h"
#include "policy/prediction/recorded_iteration.h"

namespace spillway {

// What the launches of one row waited for.
struct LaunchWaits {
  std::string name;    // with the module, if there is one: "transformer.h.0.mlp aten::addmm"
  std::string module;  // empty if none is known
  std::uint64_t launches = 0;
  std::uint64_t blocks = 0;  // that threads stopped at, or launches waited for
  TimeNs wait_ns = 0;
  TimeNs host_ns = 0;     // of that, for blocks from host memory
  TimeNs storage_ns = 0;  // ... from storage
  TimeNs fresh_ns = 0;    // ... for new memory, or for leave to write
};

class LaunchLog {
 public:
  // Rows that are told apart by name are so many at most; what comes behind them goes to the rows
  // of its execution id.
  static constexpr std::size_t kMostNames = std::size_t{1} << 16U;

  struct Launched {
    ExecutionId execution = kNoExecution;
    LogRow row = kNoLogRow;
  };
  // A launch begins, in that module (empty: none is known). Outside of modules the name of the
  // first with that hash stays.
  Launched launched(const LaunchHash& hash, std::string_view name, std::string_view module);
  [[nodiscard]] std::string_view name_of(LogRow row) const { return rows_[row].name; }
  // Launches of this row have waited so long for a block that came from there. kNoLogRow is
  // nobody's.
  void waited(LogRow row, Source from, TimeNs waited_ns);
  // ... for others to end, so that there is room.
  void waited_for_room(LogRow row, TimeNs waited_ns);
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
  LogRow row_of(ExecutionId execution, std::string_view name);
  LogRow row_in_module(ExecutionId execution, std::string_view name, std::string_view module);
  LogRow new_row(const std::string& name, std::string_view module);

  ExecutionIds executions_;
  std::vector<LaunchWaits> rows_;
  std::vector<LogRow> by_execution_;                 // kNoLogRow where there is none
  std::unordered_map<std::string, LogRow> by_name_;  // at most kMostNames
  std::string name_;                                 // its memory
  std::optional<IterationRecorder> recorder_;
  EventLog* events_ = nullptr;
};

}  // namespace spillway
