// `spillway plan`: what a planning policy has decided, as the program that a compiler would
// instrument. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

// Registers the subcommand; exit_code is set when it runs.
void add_plan_command(CLI::App& app, int& exit_code);

}  // namespace spillway
