// What `spillway estimate` prints, and its page. Layer: cli.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/estimate.h"
#include "runtime/estimate_batches.h"

namespace spillway {

struct EstimateRow {
  Machine machine;
  std::optional<Estimate> estimate{};  // none: how long kernels take there is not known
  std::uint64_t largest_batch = 0;     // that fits in device memory; 0: none
  std::optional<std::uint64_t> checkpointed_largest_batch{};
  std::optional<WorthUpTo> worth{};  // not known where steps of two batches differ
};

struct EstimateReport {
  std::string what;  // the command, or the trace's file
  std::string model;
  std::string policy;
  std::string times;  // "estimated", "recorded on NVIDIA H200", "of the trace"
  std::size_t kernels = 0;
  Bytes peak_bytes = 0;
  std::optional<Bytes> checkpointed_peak_bytes{};  // with checkpointing by hand, where known
  std::vector<EstimateRow> rows;
  bool says_batches = false;      // there were steps of two
  std::vector<std::string> sure;  // how sure it is, a sentence each
};

// A heading, a table with a line for each machine, and how sure that is.
[[nodiscard]] std::string estimate_text(const EstimateReport& report);
// One JSON object a line for each machine; docs/commands.md describes the keys.
[[nodiscard]] std::string estimate_json(const EstimateReport& report);
// A page of its own; without a chart, and saying so, where gnuplot cannot draw it.
[[nodiscard]] std::string estimate_html(const EstimateReport& report);

}  // namespace spillway
