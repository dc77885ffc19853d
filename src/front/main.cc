// The program: commands, and exit statuses. Layer: front.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "front/analyze_command.h"
#include "front/doctor_command.h"
#include "front/doctor_trial.h"
#include "front/install_kernel_command.h"
#include "front/machine_command.h"
#include "front/plan_command.h"
#include "front/record_command.h"
#include "front/reproduce_command.h"
#include "front/run_command.h"
#include "front/simulate_command.h"
#include "front/trace_command.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app("Spillway lets a program use more memory than its device has.", "spillway");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* /*app*/, const CLI::Error& error) {
    return std::string("spillway: ") + error.what() + "\n";
  });
  int exit_code = 0;
  spillway::add_run_command(app, exit_code);
  spillway::add_record_command(app, exit_code);
  spillway::add_install_kernel_command(app, exit_code);
  spillway::add_doctor_command(app, exit_code);
  spillway::add_gpu_trial_command(app, exit_code);
  spillway::add_trace_command(app, exit_code);
  spillway::add_analyze_command(app, exit_code);
  spillway::add_machine_command(app, exit_code);
  spillway::add_simulate_command(app, exit_code);
  spillway::add_plan_command(app, exit_code);
  spillway::add_reproduce_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    constexpr int kUsage = 2;  // as for any other input that a person can correct
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {  // out of memory, in the first place
    std::fprintf(stderr, "spillway: %s\n", error.what());
    return 1;
  }
}
