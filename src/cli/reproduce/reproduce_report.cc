// Tables of compared rows. See reproduce_report.h.
#include "cli/reproduce/reproduce_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/table.h"

namespace spillway {
namespace {

using reproduce::CaseState;
using reproduce::ComparedRow;
using reproduce::Metric;
using reproduce::Verdict;

std::string number(Metric metric, const std::optional<double>& value, std::string_view otherwise) {
  if (!value) {
    return std::string(otherwise);
  }
  switch (metric) {
    case Metric::kIterationS:
    case Metric::kStallS:
    case Metric::kOverlapS:
    case Metric::kComputeS:
      return fmt::format("{:.3f} s", *value);
    case Metric::kFractionOfIdeal:
      return fmt::format("{:.4f}", *value);
    default:
      return fmt::format("{:.0f}", *value);
  }
}

std::string percent(const std::optional<double>& fraction) {
  // Adding 0 makes a 0 of -0.
  return fraction ? fmt::format("{:+.2f} %", std::round(1e4 * *fraction) / 100 + 0.0) : "-";
}

std::string_view mark(Verdict verdict) { return verdict == Verdict::kMiss ? "MISS" : ""; }

std::string_view title_of(int number) {
  const auto definitions = reproduce::figures();
  const auto found = std::find_if(
      definitions.begin(), definitions.end(),
      [number](const reproduce::FigureDefinition& figure) { return figure.number == number; });
  return found->title;
}

}  // namespace

std::string comparison_tables(std::span<const ComparedRow> rows) {
  std::string out;
  for (std::size_t first = 0; first < rows.size();) {
    TextTable table({{"trace", Align::kLeft},
                     {"policy", Align::kLeft},
                     {"variation", Align::kLeft},
                     {"metric", Align::kLeft},
                     {"published"},
                     {"ours"},
                     {"deviation"},
                     {"", Align::kLeft}});
    std::size_t i = first;
    for (; i < rows.size() && rows[i].figure == rows[first].figure; ++i) {
      const ComparedRow& row = rows[i];
      const reproduce::Case& subject = row.reference.subject;
      const Metric metric = row.reference.metric;
      table.add({fmt::format("{}-{}", subject.model, subject.batch_size), subject.policy,
                 to_text(subject.variation), std::string(name_of(metric)),
                 number(metric, row.reference.value, "cannot run"),
                 number(metric, row.ours, name_of(row.state)), percent(row.deviation),
                 std::string(mark(row.verdict))});
    }
    out += fmt::format("Figure {}: {}\n", rows[first].figure, title_of(rows[first].figure));
    out += table.text("  ");
    out += '\n';
    first = i;
  }
  return out;
}

std::string comparison_summary(std::span<const ComparedRow> rows) {
  TextTable table({{"times, beside the published", Align::kLeft},
                   {"figure"},
                   {"rows"},
                   {"within"},
                   {"miss"},
                   {"not run"},
                   {"slowest"},
                   {"fastest"}});
  for (const reproduce::CriterionSummary& summary : reproduce::summarize(rows)) {
    table.add({std::string(summary.criterion->name), fmt::format("{}", summary.figure),
               fmt::format("{}", summary.within + summary.missed + summary.not_run),
               fmt::format("{}", summary.within), fmt::format("{}", summary.missed),
               fmt::format("{}", summary.not_run), percent(summary.slowest),
               percent(summary.fastest)});
  }
  std::string out = "Summary\n" + table.text("  ");
  constexpr double kClaimedPercent = 20;  // G10 section 7.6
  if (const auto cost = reproduce::worst_cost_of_error(rows, kClaimedPercent)) {
    out += fmt::format(
        "  profiling errors up to {:g} % cost g10 at most {:.2f} % (published claim: under 0.5 "
        "%){}\n",
        kClaimedPercent, 100 * *cost, *cost < 0.005 ? "" : "  MISS");
  }
  return out;
}

}  // namespace spillway
