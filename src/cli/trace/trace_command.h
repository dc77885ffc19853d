// `spillway trace info|convert|import|generate`. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

// Adds the command `trace` to the program. When it ran, exit_code is 0, 2 for input that a person
// can correct, or 1 where the operating system refused to read or write; the latter two come with
// one line on standard error. `app` and `exit_code` must outlive parsing.
void add_trace_command(CLI::App& app, int& exit_code);

}  // namespace spillway
