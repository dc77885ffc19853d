// From what a run has decided to what the program that it starts finds in its environment.
// Layer: front.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "front/decided_run.h"

namespace spillway {

<<<<<<< HEAD
=======
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

>>>>>>> near-python
using Environment = std::vector<std::pair<std::string, std::string>>;

// Besides the settings, which are in this process's environment already. What the program will find
// is checked here, so that mistakes are told before it starts: what it swaps to is opened and
// closed again, and on the host all of its space. records: the folder for what the program's
// processes leave.
[[nodiscard]] Result<Environment> run_environment(const DecidedRun& run,
                                                  const std::string& records);
// Says what has no effect, and which budgets cannot be had.
void tell_decided(const DecidedRun& run);
// The folder of what every Python program runs at its start, in that of the Python package.
[[nodiscard]] Result<std::string> python_hook();

}  // namespace spillway
