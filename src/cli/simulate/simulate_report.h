// What `spillway simulate` prints. Layer: cli.
#pragma once

#include <span>
#include <string>

#include "runtime/batch.h"

namespace spillway {

// A job and what came of it. The outcome is a result or kCannotRun; the trace was read.
struct SimulationReport {
  std::string trace_file;
  const BatchJob* job = nullptr;
  const BatchOutcome* outcome = nullptr;
};

// One JSON object on one line; docs/commands.md describes the keys.
[[nodiscard]] std::string simulation_json(const SimulationReport& report);

// One table for each trace, in the order of the reports; those of a trace are neighbours.
[[nodiscard]] std::string simulation_tables(std::span<const SimulationReport> reports);

}  // namespace spillway
