// `spillway run`: a program under a memory budget. Layer: front.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

void add_run_command(CLI::App& app, int& exit_code);

}  // namespace spillway
