// From the options of `spillway run` to what the program that it starts finds in its environment.
// Layer: front.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace spillway {

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

using Environment = std::vector<std::pair<std::string, std::string>>;

// Whether a program that finds it runs on a GPU.
[[nodiscard]] bool is_for_gpu(const Environment& environment);

// What the program will find is checked here first, so that mistakes are told before it starts: the
// settings are set for this process as well, and a space is opened with them and closed again.
// records: the folder for what the program's processes leave.
[[nodiscard]] Result<Environment> run_environment(const RunOptions& options,
                                                  const std::string& records);
// kInvalidInput for values that cannot be read, or are too little, on any machine.
[[nodiscard]] Status check_values(const RunOptions& options);
// The folder of what every Python program runs at its start, in that of the Python package.
[[nodiscard]] Result<std::string> python_hook();

}  // namespace spillway
