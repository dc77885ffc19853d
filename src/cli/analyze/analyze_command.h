// `spillway analyze TRACE`. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

// Adds the command `analyze` to the program. When it ran, exit_code is 0, 2 for input that a person
// can correct and 1 where the operating system or gnuplot failed, with one line on standard error.
// `app` and `exit_code` must outlive parsing.
void add_analyze_command(CLI::App& app, int& exit_code);

}  // namespace spillway
