// What a run decides before its program starts, once: on what it runs, with which budgets and whose
// they are, and what of it a person should know. All that is said, recorded and handed to the
// program is made of this. Layer: cli.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/run/near_choice.h"
#include "cli/run/run_device.h"
#include "cli/run/run_values.h"
#include "policy/registry.h"
#include "runtime/run/space_options.h"

namespace spillway {

// Of each setting an option, a variable, or kDefault.
struct SettingsFrom {
  std::string device;
  std::string device_memory;
  std::string host_memory;
  std::string storage;
  std::string policy;
};

struct DecidedRun {
  std::optional<GpuFacts> gpu;  // none: it runs on this machine's own memory
  SpaceOptions space;           // on the host no more than there is room for
  PolicyTraits traits;          // of its policy
  SettingsFrom from;
  NearChoice near_optimizer;
  std::vector<std::string> without_effect;  // a line each; docs/commands.md has the table
  std::vector<std::string> warnings;  // budgets that this machine cannot give; what is missing
};

// Puts the options into this process's environment, which the program inherits, and looks at the
// machine: once at its devices, once at its memory. Fails with kInvalidInput for what the user can
// correct, as where something has no effect and that ends the run (`strict`), and with kUnsupported
// where a GPU is wanted and there is none.
[[nodiscard]] Result<DecidedRun> decide_run(const RunOptions& options);

}  // namespace spillway
