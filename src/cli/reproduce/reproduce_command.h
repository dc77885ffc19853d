// `spillway reproduce`: a command for each paper. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

// Adds the command `reproduce` to the program. When it ran, exit_code is 0 (also where numbers miss
// what they must reach, and where traces or policies are missing: the report says so), 1 where
// nothing could be simulated or the operating system refused something, 2 for something that a
// person can correct. `app` and `exit_code` must outlive parsing.
void add_reproduce_command(CLI::App& app, int& exit_code);

}  // namespace spillway
