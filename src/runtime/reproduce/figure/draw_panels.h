// The panels of each kind of chart. Layer: runtime, private to draw.cc.
#pragma once

#include <string>
#include <vector>

#include "runtime/reproduce/numbers.h"

namespace spillway::reproduce {

// "BERT-256"
[[nodiscard]] std::string workload_label(const Workload& workload);

// Bars: a panel for each origin. draw_bars.cc
[[nodiscard]] plot::BarChart throughput_panel(const Numbers& numbers, Origin origin);
[[nodiscard]] plot::BarChart breakdown_panel(const Numbers& numbers, Origin origin);
[[nodiscard]] plot::BarChart traffic_panel(const Numbers& numbers, Origin origin);
[[nodiscard]] plot::BarChart profiling_error_panel(const Numbers& numbers, Origin origin);

// Lines: a panel for each model or workload; what was published is dashed. draw_lines.cc
[[nodiscard]] std::vector<plot::Panel> slowdown_panels(const Numbers& numbers);
[[nodiscard]] std::vector<plot::Panel> batch_size_panels(const Numbers& numbers);
[[nodiscard]] std::vector<plot::Panel> host_batch_panels(const Numbers& numbers);
[[nodiscard]] std::vector<plot::Panel> host_policy_panels(const Numbers& numbers);
[[nodiscard]] std::vector<plot::Panel> ssd_bandwidth_panels(const Numbers& numbers);

}  // namespace spillway::reproduce
