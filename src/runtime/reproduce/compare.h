// Our numbers beside the published ones. Layer: runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/reproduce/figure/figures.h"
#include "runtime/reproduce/run.h"

namespace spillway::reproduce {

enum class Verdict : std::uint8_t {
  kWithin,
  kMiss,
  kNotAsked,  // no criterion for this number
  kNotRun,    // a criterion, but no trace, no policy, or a failure
};

struct ComparedRow {
  int figure = 0;
  ReferenceRow reference;
  CaseState state = CaseState::kNoTrace;
  std::optional<double> ours = std::nullopt;
  // (ours - published) / published. nullopt where either is missing, or only the published is 0.
  std::optional<double> deviation = std::nullopt;
  // Our time over the published time, less 1: what criteria limit. nullopt for what is no time.
  std::optional<double> slowdown = std::nullopt;
  Verdict verdict = Verdict::kNotAsked;
};

// The cases that the figures need: those of the rows they compare, and those they only draw.
[[nodiscard]] std::vector<Case> cases_of(std::span<const FigureDefinition* const> figures,
                                         std::span<const ReferenceRow> reference);

// By figure, then in the order of the reference.
[[nodiscard]] std::vector<ComparedRow> compare(std::span<const FigureDefinition* const> figures,
                                               std::span<const ReferenceRow> reference,
                                               const Study& study);

// The rows that no figure compares, which is a mistake in the reference.
[[nodiscard]] std::vector<ReferenceRow> unclaimed(std::span<const ReferenceRow> reference);

struct CriterionSummary {
  const Criterion* criterion = nullptr;
  int figure = 0;
  std::size_t within = 0;
  std::size_t missed = 0;
  std::size_t not_run = 0;
  std::optional<double> slowest = std::nullopt;  // of the slowdowns
  std::optional<double> fastest = std::nullopt;
};

// One for each criterion and figure that has rows under it.
[[nodiscard]] std::vector<CriterionSummary> summarize(std::span<const ComparedRow> rows);

// What the largest profiling error up to `percent` in figure 19 costs: the worst time with it over
// the time without it, less 1. nullopt where the figure has no such rows.
[[nodiscard]] std::optional<double> worst_cost_of_error(std::span<const ComparedRow> rows,
                                                        double percent);

}  // namespace spillway::reproduce
