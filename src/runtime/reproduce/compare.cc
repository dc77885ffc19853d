// Deviations, verdicts and counts. See compare.h.
#include "runtime/reproduce/compare.h"

#include <algorithm>
#include <iterator>

namespace spillway::reproduce {
namespace {

std::optional<double> deviation_of(double ours, double published) {
  if (published == 0) {
    return ours == 0 ? std::optional(0.0) : std::nullopt;
  }
  return (ours - published) / published;
}

std::optional<double> slowdown_of(Metric metric, double ours, double published) {
  if (metric == Metric::kIterationS) {
    return deviation_of(ours, published);
  }
  return metric == Metric::kFractionOfIdeal ? deviation_of(published, ours) : std::nullopt;
}

Verdict judge(const ComparedRow& row) {
  const Criterion* criterion = criterion_of(row.reference);
  if (criterion == nullptr) {
    return Verdict::kNotAsked;
  }
  if (row.state != CaseState::kRan && row.state != CaseState::kCannotRun) {
    return Verdict::kNotRun;
  }
  if (!row.slowdown) {
    const bool both_cannot = !row.reference.value && row.state == CaseState::kCannotRun;
    return both_cannot ? Verdict::kWithin : Verdict::kMiss;
  }
  return *row.slowdown <= criterion->slower &&
                 (!criterion->faster || *row.slowdown >= -*criterion->faster)
             ? Verdict::kWithin
             : Verdict::kMiss;
}

ComparedRow compare_row(int figure, const ReferenceRow& reference, const Study& study) {
  ComparedRow row{.figure = figure, .reference = reference};
  const CaseOutcome outcome = study.outcome(reference.subject);
  row.state = outcome.state;
  if (outcome.state == CaseState::kRan) {
    row.ours = metric_value(reference.metric, *outcome.simulation->result);
    if (reference.value) {
      row.deviation = deviation_of(*row.ours, *reference.value);
      row.slowdown = slowdown_of(reference.metric, *row.ours, *reference.value);
    }
  }
  row.verdict = judge(row);
  return row;
}

}  // namespace

std::vector<Case> cases_of(std::span<const FigureDefinition* const> figures,
                           std::span<const ReferenceRow> reference) {
  std::vector<Case> cases;
  for (const FigureDefinition* figure : figures) {
    for (const ReferenceRow& row : reference) {
      if (belongs(row, *figure)) {
        cases.push_back(row.subject);
      }
    }
    const std::vector<Case> drawn = drawn_cases(*figure, reference);
    cases.insert(cases.end(), drawn.begin(), drawn.end());
  }
  return cases;
}

std::vector<ComparedRow> compare(std::span<const FigureDefinition* const> figures,
                                 std::span<const ReferenceRow> reference, const Study& study) {
  std::vector<ComparedRow> rows;
  for (const FigureDefinition* figure : figures) {
    for (const ReferenceRow& row : reference) {
      if (belongs(row, *figure)) {
        rows.push_back(compare_row(figure->number, row, study));
      }
    }
  }
  return rows;
}

std::vector<ReferenceRow> unclaimed(std::span<const ReferenceRow> reference) {
  std::vector<ReferenceRow> rows;
  std::copy_if(
      reference.begin(), reference.end(), std::back_inserter(rows), [](const ReferenceRow& row) {
        return std::none_of(figures().begin(), figures().end(),
                            [&](const FigureDefinition& figure) { return belongs(row, figure); });
      });
  return rows;
}

std::vector<CriterionSummary> summarize(std::span<const ComparedRow> rows) {
  std::vector<CriterionSummary> summaries;
  for (const Criterion& criterion : criteria()) {
    for (const ComparedRow& row : rows) {
      if (criterion_of(row.reference) != &criterion) {
        continue;
      }
      // Rows come by figure, so those of a figure are neighbours.
      if (summaries.empty() || summaries.back().criterion != &criterion ||
          summaries.back().figure != row.figure) {
        summaries.push_back({.criterion = &criterion, .figure = row.figure});
      }
      CriterionSummary& summary = summaries.back();
      summary.within += row.verdict == Verdict::kWithin ? 1 : 0;
      summary.missed += row.verdict == Verdict::kMiss ? 1 : 0;
      summary.not_run += row.verdict == Verdict::kNotRun ? 1 : 0;
      if (row.slowdown) {
        summary.slowest = std::max(summary.slowest.value_or(*row.slowdown), *row.slowdown);
        summary.fastest = std::min(summary.fastest.value_or(*row.slowdown), *row.slowdown);
      }
    }
  }
  return summaries;
}

std::optional<double> worst_cost_of_error(std::span<const ComparedRow> rows, double percent) {
  constexpr int kFigure = 19;
  std::optional<double> worst;
  for (const ComparedRow& row : rows) {
    const Variation& variation = row.reference.subject.variation;
    if (row.figure != kFigure || !row.ours || !variation.error_percent ||
        *variation.error_percent == 0 || *variation.error_percent > percent) {
      continue;
    }
    Case without = row.reference.subject;
    without.variation.error_percent = 0;
    for (const ComparedRow& other : rows) {
      if (other.figure == kFigure && other.ours && other.reference.subject == without) {
        const double cost = *other.ours / *row.ours - 1;
        worst = std::max(worst.value_or(cost), cost);
      }
    }
  }
  return worst;
}

}  // namespace spillway::reproduce
