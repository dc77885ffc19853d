// Simulates, prints, writes and draws. See autovm_command.h.
#include "cli/reproduce/autovm_command.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "cli/complain.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/study_table.h"
#include "plot/svg.h"

namespace spillway {
namespace {

struct AutoVmCommandOptions {
  std::string out;  // none: nothing is written
  bool json = false;
};

Result<reproduce::AutoVmStudy> simulate_autovm() {
  Progress progress(reproduce::autovm_steps());
  return reproduce::run_autovm([&](std::size_t done) { progress.set_done(done); });
}

Status draw_autovm(const reproduce::AutoVmStudy& study, const std::filesystem::path& folder) {
  constexpr std::array<std::pair<ImageNetwork, std::string_view>, 3> kFigures{
      {{ImageNetwork::kAlexNet, "figure6.1.svg"},
       {ImageNetwork::kVgg19, "figure6.3.svg"},
       {ImageNetwork::kResNet152, "figure6.4.svg"}}};
  for (const auto& [network, name] : kFigures) {
    if (Status status = plot::write_svg(reproduce::autovm_figure(study, network), folder / name);
        !status) {
      return status;
    }
  }
  return plot::write_svg(reproduce::autovm_threshold_figure(study), folder / "figure6.7.svg");
}

Status reproduce_autovm(const AutoVmCommandOptions& options) {
  if (Status made = make_out_folder(options.out); !made) {
    return made;
  }
  const Result<reproduce::AutoVmStudy> study = simulate_autovm();
  if (!study) {
    return tl::unexpected<Error>(study.error());
  }
  fmt::print("{}", options.json ? study_json(study->tables) : autovm_report(*study));
  if (options.out.empty()) {
    return {};
  }
  if (Status status = write_study_rows(study->tables, options.out); !status) {
    return status;
  }
  if (Status status = draw_autovm(*study, options.out); !status) {
    return status;
  }
  if (!options.json) {
    fmt::print("\nThe figures and all rows are in {}\n", options.out);
  }
  return {};
}

}  // namespace

std::string autovm_report(const reproduce::AutoVmStudy& study) {
  std::string out =
      "Nothing is fitted to table 6.2. What the driver does costs what chapter 4 measured; "
      "computing "
      "takes\nwhat section 6.3 says of AlexNet and VGG-19. The need of memory is in parts of 9.5 "
      "GB. "
      "What pre-access\ncosts where everything fits, the thesis does not say, and it costs nothing "
      "here. docs/results.md has\nthe grounds.\n\n";
  for (const reproduce::NearTable& table : study.tables) {
    out += study_table(table);
  }
  out += study_verdict(study.tables) + ": table 6.2 within 20 percent points\n";
  return out;
}

void add_autovm_command(CLI::App& reproduce, int& exit_code) {
  auto options = std::make_shared<AutoVmCommandOptions>();
  CLI::App* command = reproduce.add_subcommand(
      "autovm", "Table 6.2, figures 6.1, 6.3, 6.4 and 6.7 and section 4.2.4 of the AutoVM thesis");
  command
      ->add_option("--out", options->out,
                   "Also write the figures, rows.csv and rows.jsonl into this folder")
      ->type_name("DIR");
  command->add_flag("--json", options->json, "Print one JSON object for each number");
  command->callback([options, &exit_code] {
    const Status status = reproduce_autovm(*options);
    exit_code = status ? 0 : complain(status.error());
  });
}

}  // namespace spillway
