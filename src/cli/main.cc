// The program: commands, and exit statuses. Layer: cli.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/analyze/analyze_command.h"
#include "cli/doctor/doctor_command.h"
#include "cli/doctor/doctor_trial.h"
#include "cli/estimate/estimate_command.h"
#include "cli/help.h"
#include "cli/install_kernel_command.h"
#include "cli/machine_command.h"
#include "cli/misuse.h"
#include "cli/reproduce/reproduce_command.h"
#include "cli/run/run_command.h"
#include "cli/simulate/plan_command.h"
#include "cli/simulate/simulate_command.h"
#include "cli/trace/record_command.h"
#include "cli/trace/trace_command.h"
#include "cli/version.h"

namespace {

constexpr const char* kStartHere =
    "Spillway lets a program use more memory than its device has. The program needs no\n"
    "change.\n\n"
    "  spillway doctor                                         what works on this machine\n"
    "  spillway run -- python train.py                         most of the free memory\n"
    "  spillway run --device-memory 8GiB -- python train.py    at most 8 GiB of GPU memory\n";

int run(int argc, char** argv) {
  CLI::App app(kStartHere, "spillway");
  app.formatter(spillway::help_formatter());
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag("--version", spillway::version_report,
                       "Print the version, the commit, and which driver library was found");
  app.require_subcommand(1);
  app.failure_message(
      [](const CLI::App* of, const CLI::Error& error) { return spillway::misuse(*of, error); });
  int exit_code = 0;
  spillway::add_run_command(app, exit_code);
  spillway::add_can_run_command(app, exit_code);
  spillway::add_record_command(app, exit_code);
  spillway::add_install_kernel_command(app, exit_code);
  spillway::add_doctor_command(app, exit_code);
  spillway::add_gpu_trial_command(app, exit_code);
  spillway::add_trace_command(app, exit_code);
  spillway::add_analyze_command(app, exit_code);
  spillway::add_machine_command(app, exit_code);
  spillway::add_simulate_command(app, exit_code);
  spillway::add_estimate_command(app, exit_code);
  spillway::add_plan_command(app, exit_code);
  spillway::add_reproduce_command(app, exit_code);
  app.footer("`spillway COMMAND --help` has the options of each, and examples.");
  for (CLI::App* const command : app.get_subcommands({})) {
    const std::string& name = command->get_name();
    const bool runs =
        name == "run" || name == "record" || name == "doctor" || name == "install-kernel";
    if (!command->get_group().empty()) {
      command->group(runs ? "Programs" : "Traces, and machines that are simulated");
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (spillway::says_nothing(app, error)) {
      std::fputs(app.help().c_str(), stdout);
      return 0;
    }
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
