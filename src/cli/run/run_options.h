// What `spillway run` and `spillway record` both ask: the budgets, who decides, which program.
// Layer: cli.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/error.h"
#include "cli/run/run_values.h"

namespace spillway {

// The options of the space, and the program behind them. `options` must outlive the command.
void add_space_options(CLI::App& command, RunOptions& options);
void add_program(CLI::App& command, RunOptions& options);
// The policies, for the end of --help.
[[nodiscard]] std::string policy_footer();

// kInvalidInput for an option that was given with an empty value, or where there is no program.
[[nodiscard]] Status has_values(const CLI::App& command);
// The command's exit status for how it ended: the program's, or our own for an error, of which one
// line is printed.
[[nodiscard]] int exit_status(const Result<int>& ended);

}  // namespace spillway
