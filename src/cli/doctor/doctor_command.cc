// See doctor_command.h. docs/commands.md says what is looked at and why.
#include "cli/doctor/doctor_command.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/complain.h"
#include "cli/doctor/doctor_checks.h"

namespace spillway {
namespace {

struct DoctorOptions {
  std::string storage;
  bool json = false;
};

Result<int> doctor(const DoctorOptions& options) {
  std::string folder = options.storage;
  if (folder.empty()) {
    std::error_code error;
    folder = std::filesystem::temp_directory_path(error);
    folder = error ? "/tmp" : folder;  // a TMPDIR that is not there is the trial's to complain of
  } else if (const Status usable = check_storage_folder(folder); !usable) {
    return tl::unexpected<Error>(usable.error());
  }
  const FactGroup trial = check_trial();
  const bool run_works = trial.facts.front().mark == Mark::kOk;
  const std::vector<FactGroup> groups{trial,           check_page_faults(),
                                      check_machine(), check_storage(folder),
                                      check_gpu(),     check_python()};
  std::fputs((options.json ? facts_json : facts_text)(groups, run_works).c_str(), stdout);
  return run_works ? 0 : 1;
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* const command = app.add_subcommand(
      "doctor",
      "Check what works on this machine, and say what to do about the rest\n\n"
      "It runs a small program on each kind of device (GPU, host), and looks at page faults,\n"
      "memory, the speed of storage, the GPU and PyTorch. The exit status is 0 if\n"
      "`spillway run` works here, else 1.\n\n"
      "  spillway doctor\n"
      "  spillway doctor --storage /var/tmp     how fast a swap file would be there\n");
  command
      ->add_option("--storage", options->storage,
                   "Measure the speed of the storage under this folder (the temporary folder)")
      ->type_name("FOLDER");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options, &exit_code] {
    const Result<int> status = doctor(*options);
    exit_code = status ? *status : complain(status.error());
  });
}

}  // namespace spillway
