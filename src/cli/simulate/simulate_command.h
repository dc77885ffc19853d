// `spillway simulate TRACE...`. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

// Adds the command `simulate` to the program. When it ran, exit_code is
//  0  at least one policy ran (one that cannot run a trace is an answer, not a failure);
//  1  none could run, or the operating system refused something;
//  2  something that a person can correct: an option, a trace file;
// 1 and 2 come with one line on standard error for each thing that is wrong. `app` and `exit_code`
// must outlive parsing.
void add_simulate_command(CLI::App& app, int& exit_code);

}  // namespace spillway
