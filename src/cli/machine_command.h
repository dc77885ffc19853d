// `spillway machine list` and `spillway machine show NAME`. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

// Adds the command `machine` to the program. When it ran, exit_code is 0, or 2 for input that a
// person can correct, with one line on standard error. `app` and `exit_code` must outlive parsing.
void add_machine_command(CLI::App& app, int& exit_code);

}  // namespace spillway
