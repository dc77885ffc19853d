// `spillway doctor`: what this machine offers, and whether `spillway run` works on it.
// Layer: cli.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

// exit_code: 0 if `spillway run` works here, 1 if not, 2 for an option that is wrong. `app` and
// `exit_code` must outlive parsing.
void add_doctor_command(CLI::App& app, int& exit_code);

}  // namespace spillway
