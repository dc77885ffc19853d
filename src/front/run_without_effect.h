// What has been set for a run and changes nothing of it: an option that the device or the policy
// has no use for, a variable with a name that nobody reads, a program that no library can be loaded
// into. Layer: front. docs/commands.md has the table.
#pragma once

#include <string>
#include <vector>

#include "front/run_environment.h"

namespace spillway {

// One line each: what, where, and what to do. The options have been put into this process's
// environment.
[[nodiscard]] std::vector<std::string> without_effect(const RunOptions& options, bool on_gpu);

}  // namespace spillway
