// What has been set for a run and changes nothing of it: an option that the device or the policy
// has no use for, a variable with a name that nobody reads, a program that no library can be loaded
// into. Layer: cli. docs/commands.md has the table.
#pragma once

#include <string>
#include <vector>

#include "cli/run/run_values.h"
#include "policy/registry.h"

namespace spillway {

// With what it runs, whoever has said so.
struct RunKind {
  bool gpu = false;
  std::string policy;
  PolicyTraits traits;  // the policy's
};

// One line each: what, where, and what to do. The options have been put into this process's
// environment.
[[nodiscard]] std::vector<std::string> without_effect(const RunOptions& options,
                                                      const RunKind& run);

}  // namespace spillway
