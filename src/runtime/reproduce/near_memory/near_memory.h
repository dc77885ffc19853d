// The near-memory paper's experiments in simulation, beside its numbers. Layer: runtime.
// docs/near-memory.md explains the model.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "platform/sim/near_memory/platforms.h"
#include "runtime/reproduce/compare.h"

namespace spillway::reproduce {

// How far from the published number ours may be.
struct NearLimit {
  double distance;
  bool is_fraction;  // of the published number
};

struct NearRow {
  std::string table;    // "table 5"
  std::string subject;  // "AXDIMM"
  std::string metric;   // "update_mp_per_s": the unit is its end
  double ours = 0;
  std::optional<double> published;
  std::optional<NearLimit> limit;

  // Ours over the published.
  [[nodiscard]] std::optional<double> ratio() const;
  [[nodiscard]] Verdict verdict() const;
};

// A table of results: rows of one kind, by subject and metric.
struct NearTable {
  std::string name;   // "table 5"
  std::string title;  // for people
  std::vector<NearRow> rows;
};

// What has been simulated.
struct NearStudy {
  std::vector<NearTable> tables;
  sim::near_memory::Iteration timeline;  // of figure 4: the first model on the device
};

// Simulations of run_near_memory, for a progress line.
[[nodiscard]] std::size_t near_memory_steps();
// Everything, always the same. `on_done` hears how many steps are done. kDefect where a simulation
// cannot go on.
[[nodiscard]] Result<NearStudy> run_near_memory(const std::function<void(std::size_t)>& on_done);

// "table,subject,metric,published,ours,ratio,verdict", a line each.
[[nodiscard]] std::string near_rows_csv(std::span<const NearTable> tables);
// The same as one JSON object on one line.
[[nodiscard]] std::string near_row_json(const NearRow& row);

}  // namespace spillway::reproduce
