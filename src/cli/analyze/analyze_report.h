// What `spillway analyze` prints and draws. Layer: cli, private to the command.
#pragma once

#include <optional>
#include <string>

#include "analysis/lower_bound.h"
#include "analysis/memory_curve.h"
#include "analysis/summary.h"
#include "analysis/vitality.h"
#include "machine/machine.h"
#include "plot/figure.h"
#include "trace/trace.h"

namespace spillway {

// On what machine an iteration takes at least how long.
struct MachineBound {
  Machine machine;
  LowerBound bound;
};

struct Analysis {
  Trace trace;
  Vitality vitality;
  MemoryCurve curve;
  TraceSummary summary;
  double bandwidth_bytes_per_s = 0;
  std::optional<MachineBound> machine;  // where one was asked for
};

// For people; ends with a newline.
[[nodiscard]] std::string analysis_text(const Analysis& analysis);
// One JSON object on one line, with the newline. Bytes and nanoseconds throughout.
[[nodiscard]] std::string analysis_json(const Analysis& analysis);
// Three panels, as G10's figures 2, 3 and 4.
[[nodiscard]] plot::Figure analysis_figure(const Analysis& analysis);

}  // namespace spillway
