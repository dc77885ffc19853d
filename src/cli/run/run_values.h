// The options of `spillway run`: what may stand in them, and the variables that stand for them.
// Layer: cli.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace spillway {

// Whose a setting is that nobody has set.
inline constexpr const char* kDefault = "default";

// As they were typed; what was not is empty.
struct RunOptions {
  std::string device = "auto";
  std::string device_memory;
  std::string host_memory;
  std::string storage;
  std::string policy;        // what measures best there
  std::string report;        // the name of a file
  std::string json;          // likewise, or "-"
  std::string trace_events;  // the name of a file
  std::string metrics;       // likewise, or a port of the loopback
  std::string link_bandwidth;
  std::string fault_latency;
  std::string threshold;
  std::string prefetch_degree;
  std::string near_optimizer;  // whose code computes an optimizer's step: auto, on or off
  bool strict = false;         // what has no effect ends the run
  std::vector<std::string> command;
};

// kInvalidInput for values that cannot be read, or are too little, on any machine.
[[nodiscard]] Status check_values(const RunOptions& options);
// Into the variables of this process that stand for them, which the program inherits. The values
// have been checked.
void set_variables(const RunOptions& options);

}  // namespace spillway
