// `spillway estimate`: would a training step fit other machines, and how long would it take there?
// Layer: cli.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

// The command's exit status goes into `exit_code`, which must outlive the app.
void add_estimate_command(CLI::App& app, int& exit_code);

}  // namespace spillway
