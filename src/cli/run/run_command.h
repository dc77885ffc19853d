// `spillway run`: a program under a memory budget. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/run/run_values.h"

namespace spillway {

void add_run_command(CLI::App& app, int& exit_code);
// For spillway.enable(), whose process `run` would end: the same options, and the exit status and
// the line with which `run` would refuse them.
void add_can_run_command(CLI::App& app, int& exit_code);
// All options but the program, for other commands that start one or say how. Both must outlive it.
void add_run_options(CLI::App* command, RunOptions* options);

}  // namespace spillway
