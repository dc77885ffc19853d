// Reads the reference, runs, prints, writes and draws. See reproduce_command.h.
#include "cli/reproduce/reproduce_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/reproduce/autovm_command.h"
#include "cli/reproduce/near_memory_command.h"
#include "cli/reproduce/reproduce_report.h"
#include "machine/load.h"
#include "plot/svg.h"
#include "runtime/reproduce/compare.h"
#include "runtime/reproduce/figure/draw.h"
#include "runtime/reproduce/rows.h"
#include "runtime/reproduce/run.h"

namespace spillway {
namespace {

using reproduce::ComparedRow;
using reproduce::FigureDefinition;
using reproduce::ReferenceRow;
using reproduce::Study;

// One set of parameters for all traces; a figure changes what it varies and nothing else.
constexpr std::string_view kMachine = "a100-40gb";

struct ReproduceOptions {
  std::string traces;
  std::string reference;
  std::string out;           // none: nothing is written
  std::vector<int> figures;  // none: all
  std::size_t jobs = std::max(1U, std::thread::hardware_concurrency());
  bool json = false;
};

void report_problem(std::string_view message) { fmt::print(stderr, "spillway: {}\n", message); }

Result<std::vector<const FigureDefinition*>> chosen_figures(const std::vector<int>& numbers) {
  std::vector<const FigureDefinition*> chosen;
  for (const FigureDefinition& figure : reproduce::figures()) {
    if (numbers.empty() || std::count(numbers.begin(), numbers.end(), figure.number) > 0) {
      chosen.push_back(&figure);
    }
  }
  for (const int number : numbers) {
    if (std::none_of(chosen.begin(), chosen.end(), [number](const FigureDefinition* figure) {
          return figure->number == number;
        })) {
      return make_error(ErrorCode::kInvalidInput, "--figure {}: the figures are {} to {}", number,
                        reproduce::figures().front().number, reproduce::figures().back().number);
    }
  }
  return chosen;
}

void complain_of_unclaimed(const std::vector<ReferenceRow>& reference, const std::string& path) {
  const std::vector<ReferenceRow> unclaimed = reproduce::unclaimed(reference);
  if (!unclaimed.empty()) {
    report_problem(
        fmt::format("{}: {} rows belong to no figure and are left out; the first is '{}', {}", path,
                    unclaimed.size(), unclaimed.front().figure, unclaimed.front().subject.policy));
  }
}

Status write_text(const std::string& text, const std::filesystem::path& path) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    return make_error(ErrorCode::kIo, "{}: cannot write", path.string());
  }
  return {};
}

Status write_rows(const std::vector<ComparedRow>& rows, const std::filesystem::path& folder) {
  std::string json;
  for (const ComparedRow& row : rows) {
    json += reproduce::row_json(row) + "\n";
  }
  if (Status status = write_text(json, folder / "rows.jsonl"); !status) {
    return status;
  }
  return write_text(reproduce::rows_csv(rows), folder / "rows.csv");
}

Status draw_figures(const std::vector<const FigureDefinition*>& figures,
                    const std::vector<ReferenceRow>& reference, const Study& study,
                    const std::filesystem::path& folder) {
  for (const FigureDefinition* definition : figures) {
    const auto figure = reproduce::draw(*definition, reference, study);
    if (!figure) {
      report_problem(fmt::format("figure {}: there is nothing to draw", definition->number));
      continue;
    }
    const auto path = folder / fmt::format("figure{}.svg", definition->number);
    if (Status status = plot::write_svg(*figure, path); !status) {
      return status;
    }
  }
  return {};
}

// Says whether anything could be simulated.
Result<bool> reproduce_g10(const ReproduceOptions& options) {
  const auto figures = chosen_figures(options.figures);
  if (!figures) {
    return tl::unexpected<Error>(figures.error());
  }
  std::error_code error;
  if (!std::filesystem::is_directory(options.traces, error)) {
    return make_error(ErrorCode::kInvalidInput, "--traces: {} is not a folder", options.traces);
  }
  const auto reference = reproduce::read_reference(options.reference);
  if (!reference) {
    return tl::unexpected<Error>(reference.error());
  }
  if (const Status made = make_out_folder(options.out); !made) {
    return tl::unexpected<Error>(made.error());
  }
  const Result<Machine> machine = load_machine(kMachine);
  if (!machine) {
    return tl::unexpected<Error>(machine.error());
  }
  Result<Study> study =
      Study::plan(reproduce::cases_of(*figures, *reference), options.traces, *machine);
  if (!study) {
    return make_error(study.error().code, "{}: {}", options.reference, study.error().message);
  }
  {
    Progress progress(study->simulations());
    study->run(options.jobs, [&](std::size_t done) { progress.set_done(done); });
  }
  complain_of_unclaimed(*reference, options.reference);
  for (const std::string& line : study->complaints()) {
    report_problem(line);
  }

  const std::vector<ComparedRow> rows = reproduce::compare(*figures, *reference, *study);
  if (options.json) {
    for (const ComparedRow& row : rows) {
      fmt::print("{}\n", reproduce::row_json(row));
    }
  } else {
    fmt::print("{}{}\n{} simulations\n", comparison_tables(rows), comparison_summary(rows),
               study->simulations());
  }
  if (!options.out.empty()) {
    Status status = write_rows(rows, options.out);
    if (status) {
      status = draw_figures(*figures, *reference, *study, options.out);
    }
    if (!status) {
      return tl::unexpected<Error>(status.error());
    }
    if (!options.json) {
      fmt::print("The figures and all rows are in {}\n", options.out);
    }
  }
  return study->simulations() > 0;
}

int run(const ReproduceOptions& options) {
  const Result<bool> any = reproduce_g10(options);
  if (any) {
    return *any ? 0 : 1;
  }
  report_problem(any.error().message);
  return any.error().code == ErrorCode::kInvalidInput ? 2 : 1;
}

}  // namespace

void add_reproduce_command(CLI::App& app, int& exit_code) {
  CLI::App* reproduce = app.add_subcommand(
      "reproduce",
      "Simulate the experiments of a paper and print each number beside the published one\n\n"
      "Nothing is written, unless --out names a folder for figures and rows.\n\n"
      "  spillway reproduce g10 --traces traces --reference g10.csv\n"
      "  spillway reproduce near-memory\n"
      "  spillway reproduce autovm --out figures\n");
  reproduce->require_subcommand(1);

  auto options = std::make_shared<ReproduceOptions>();
  CLI::App* g10 = reproduce->add_subcommand("g10", "Figures 11 to 19 of the G10 paper");
  g10->add_option("--traces", options->traces,
                  "The folder of the traces: <model>-<batch size>.json.gz or .swt")
      ->required()
      ->type_name("DIR");
  g10->add_option("--reference", options->reference, "The published numbers, as CSV")
      ->required()
      ->type_name("FILE");
  g10->add_option("--out", options->out,
                  "Also write the figures, rows.csv and rows.jsonl into this folder")
      ->type_name("DIR");
  g10->add_option("--figure", options->figures, "Only these figures")
      ->type_name("N[,N...]")
      ->delimiter(',')
      ->allow_extra_args(false);
  g10->add_option("--jobs", options->jobs, "How many simulations run at a time")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->default_str("one a core");
  g10->add_flag("--json", options->json, "Print one JSON object for each number");
  g10->callback([options, &exit_code] { exit_code = run(*options); });
  add_near_memory_command(*reproduce, exit_code);
  add_autovm_command(*reproduce, exit_code);
}

}  // namespace spillway
