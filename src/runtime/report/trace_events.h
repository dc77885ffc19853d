// A run's events on their way to a timeline that Perfetto and chrome://tracing open (Trace Event
// Format, JSON). Layer: runtime. docs/traces.md, "Timelines".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/common/event_log.h"

namespace spillway {

struct ProcessEvents {
  std::int64_t pid = 0;
  std::string command;
  TimeNs began_ns = 0;  // when the watching of it began
  LoggedEvents events;
};

// What a process leaves in the folder of its records, and all that lie there, by process.
[[nodiscard]] std::string events_file(const std::string& folder, std::int64_t pid);
[[nodiscard]] std::string to_json(const ProcessEvents& process);
[[nodiscard]] std::vector<ProcessEvents> read_process_events(const std::string& folder);

// The timeline: a track for each stream, and as many for each route and for waits as there were at
// once. Times count from the first process's beginning.
[[nodiscard]] std::string timeline_json(const std::vector<ProcessEvents>& processes);

}  // namespace spillway
