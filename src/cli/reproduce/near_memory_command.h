// `spillway reproduce near-memory`. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

// Adds it to the command `reproduce`. Exit status as there. `reproduce` and `exit_code` must
// outlive parsing.
void add_near_memory_command(CLI::App& reproduce, int& exit_code);

}  // namespace spillway
