// `spillway install-kernel`: a kernel for Jupyter that runs under Spillway. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

void add_install_kernel_command(CLI::App& app, int& exit_code);

}  // namespace spillway
