// Figures 11 to 19 of the G10 paper as data: what belongs to each, how it is drawn, and what its
// numbers must reach. Layer: runtime. Everything that is particular to the paper is in figures.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/reproduce/reference.h"

namespace spillway::reproduce {

enum class Chart : std::uint8_t {
  kThroughput,      // bars of ideal time over time, by case and policy
  kBreakdown,       // stacked shares of an iteration, by case and policy
  kSlowdown,        // distribution of kernel slowdowns, a panel a case
  kTraffic,         // stacked bytes, by case and policy
  kBatchSizes,      // throughput over batch size, a panel a model
  kHostBatches,     // time over host memory by batch size, a panel a model
  kHostPolicies,    // time over host memory by policy, a panel a case
  kSsdBandwidth,    // ideal time over time over SSD bandwidth by policy, a panel a model
  kProfilingError,  // bars of time without error over time with it
};

struct FigureDefinition {
  int number;
  std::string_view title;
  std::string_view reference;  // the column `figure` of its rows in a reference file
  std::span<const std::string_view> policies;  // of its rows; also the order in which it shows them
  bool compares;  // whether these rows are compared under this figure; else it only draws
  Chart chart;
};

[[nodiscard]] std::span<const FigureDefinition> figures();

// Whether the row is one of those that the figure compares.
[[nodiscard]] bool belongs(const ReferenceRow& row, const FigureDefinition& figure);
// What the figure needs besides the cases of the rows that belong to it, in order to be drawn.
[[nodiscard]] std::vector<Case> drawn_cases(const FigureDefinition& figure,
                                            std::span<const ReferenceRow> reference);

// How figures call a policy, and its colour in all of them.
struct PolicyStyle {
  std::string_view policy;
  std::string_view label;
  int color;
};
// A policy without a style of its own gets its name.
[[nodiscard]] PolicyStyle style_of(std::string_view policy);
// "bert" is "BERT".
[[nodiscard]] std::string model_label(std::string_view model);

// How near to the published time a policy must come.
struct Criterion {
  std::string_view name;
  std::span<const std::string_view> policies;
  double slower;                 // at most this fraction
  std::optional<double> faster;  // at most this fraction; nullopt: as fast as can be
};
[[nodiscard]] std::span<const Criterion> criteria();
// nullptr where nothing is asked of the number: only times are.
[[nodiscard]] const Criterion* criterion_of(const ReferenceRow& row);

}  // namespace spillway::reproduce
