// From what a run has decided to what the program that it starts finds in its environment.
// Layer: cli.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/run/decided_run.h"

namespace spillway {

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
// The variable of that name, a list with colons, as this process has it but with `value` in front;
// as it is where `value` is in it already.
[[nodiscard]] std::pair<std::string, std::string> put_first(const char* name,
                                                            const std::string& value);

}  // namespace spillway
