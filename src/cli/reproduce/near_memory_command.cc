// Simulates, prints, writes and draws. See near_memory_command.h.
#include "cli/reproduce/near_memory_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/complain.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/reproduce/near_memory_report.h"
#include "cli/study_table.h"
#include "plot/svg.h"
#include "runtime/reproduce/near_memory/near_memory.h"
#include "runtime/reproduce/near_memory/near_memory_timeline.h"

namespace spillway {
namespace {

struct NearMemoryOptions {
  std::string out;  // none: nothing is written
  bool json = false;
};

Result<reproduce::NearStudy> simulate_near_memory() {
  Progress progress(reproduce::near_memory_steps());
  return reproduce::run_near_memory([&](std::size_t done) { progress.set_done(done); });
}

Status write_near_memory(const reproduce::NearStudy& study, const std::filesystem::path& folder) {
  if (Status status = write_study_rows(study.tables, folder); !status) {
    return status;
  }
  return plot::write_svg(
      reproduce::timeline_figure(study.timeline,
                                 "Near-memory figure 4: one iteration of GPT-3 Large, AXDIMM"),
      folder / "figure4.svg");
}

Status reproduce_near_memory(const NearMemoryOptions& options) {
  if (Status made = make_out_folder(options.out); !made) {
    return made;
  }
  const Result<reproduce::NearStudy> study = simulate_near_memory();
  if (!study) {
    return tl::unexpected<Error>(study.error());
  }
  fmt::print("{}", options.json ? study_json(study->tables) : near_memory_report(*study));
  if (options.out.empty()) {
    return {};
  }
  if (Status status = write_near_memory(*study, options.out); !status) {
    return status;
  }
  if (!options.json) {
    fmt::print("\nThe figure and all rows are in {}\n", options.out);
  }
  return {};
}

}  // namespace

void add_near_memory_command(CLI::App& reproduce, int& exit_code) {
  auto options = std::make_shared<NearMemoryOptions>();
  CLI::App* command = reproduce.add_subcommand(
      "near-memory", "Tables 5 and 6 and figure 4 of the near-memory (AXDIMM) paper");
  command
      ->add_option("--out", options->out,
                   "Also write the figure, rows.csv and rows.jsonl into this folder")
      ->type_name("DIR");
  command->add_flag("--json", options->json, "Print one JSON object for each number");
  command->callback([options, &exit_code] {
    const Status status = reproduce_near_memory(*options);
    exit_code = status ? 0 : complain(status.error());
  });
}

}  // namespace spillway
