// The program with which `spillway doctor` tries a GPU: `spillway gpu-trial`, which `--help` does
// not show. It takes device memory as any program does, writes it, reads it, and looks at it.
// Layer: cli.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

void add_gpu_trial_command(CLI::App& app, int& exit_code);

}  // namespace spillway
