// A trace in three panels: memory over the iteration, how long tensors lie idle, and how that goes
// with their size (G10 figures 2 to 4).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "cli/analyze/analyze_report.h"
#include "cli/trace/trace_info.h"

namespace spillway {
namespace {

using plot::XyChart;
using plot::XySeries;

constexpr int kBlue = 0;
constexpr int kVermilion = 3;
constexpr int kSkyBlue = 4;
constexpr int kGreyColor = 7;

double to_gib(Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); }

XyChart memory_chart(const Analysis& analysis) {
  XySeries live{"all tensors", {}, {}, plot::Mark::kArea, kSkyBlue, false};
  XySeries active{"active tensors", {}, {}, plot::Mark::kSteps, kVermilion, false};
  const auto& kernels = analysis.curve.kernels;
  for (std::size_t kernel = 0; kernel < kernels.size(); ++kernel) {
    // Both edges of the kernel's column, so that each kernel is a flat top.
    for (const double x : {static_cast<double>(kernel), static_cast<double>(kernel + 1)}) {
      live.x.push_back(x);
      live.y.push_back(to_gib(kernels[kernel].live_bytes));
      active.x.push_back(x);
      active.y.push_back(to_gib(kernels[kernel].active_bytes));
    }
  }
  XyChart chart;
  chart.title = "Memory during an iteration";
  chart.x = {"kernel, in order of execution", false, 0.0,
             std::max(1.0, static_cast<double>(kernels.size()))};
  chart.y = {"GiB", false, 0.0, {}};
  chart.series = {std::move(live), std::move(active)};
  if (analysis.machine) {
    const double capacity = to_gib(analysis.machine->machine.device.capacity_bytes);
    chart.series.push_back({"device memory",
                            {0, *chart.x.max},
                            {capacity, capacity},
                            plot::Mark::kLine,
                            kGreyColor,
                            true});
  }
  return chart;
}

XyChart lengths_chart(const Analysis& analysis) {
  std::vector<double> lengths_us;
  lengths_us.reserve(analysis.vitality.periods.size());
  for (const InactivePeriod& period : analysis.vitality.periods) {
    lengths_us.push_back(to_us(period.length_ns()));
  }
  std::sort(lengths_us.begin(), lengths_us.end());
  XySeries share{"", {}, {}, plot::Mark::kSteps, kBlue, false};
  for (std::size_t i = 0; i < lengths_us.size(); ++i) {
    // Only the last of equal lengths: the curve says how many periods are at most so long.
    if (i + 1 == lengths_us.size() || lengths_us[i] < lengths_us[i + 1]) {
      share.x.push_back(lengths_us[i]);
      share.y.push_back(100 * static_cast<double>(i + 1) / static_cast<double>(lengths_us.size()));
    }
  }
  XyChart chart;
  chart.title = "Length of inactive periods";
  chart.x = {"at most so long (µs)", true, {}, {}};
  chart.y = {"% of inactive periods", false, 0.0, 100.0};
  chart.series = {std::move(share)};
  return chart;
}

// Three significant digits are finer than a pixel here, and periods that fall together draw once.
double rounded(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  return std::round(value / unit) * unit;
}

XyChart sizes_chart(const Analysis& analysis) {
  std::set<std::pair<double, double>> points;
  double smallest = 0;
  double largest = 0;
  for (const InactivePeriod& period : analysis.vitality.periods) {
    const auto bytes = static_cast<double>(analysis.trace.tensors[period.tensor].bytes);
    points.emplace(rounded(bytes / static_cast<double>(kKiB)), rounded(to_us(period.length_ns())));
    smallest = smallest == 0 ? bytes : std::min(smallest, bytes);
    largest = std::max(largest, bytes);
  }
  XySeries periods{"inactive period", {}, {}, plot::Mark::kPoints, kBlue, false};
  for (const auto& [kib, length_us] : points) {
    periods.x.push_back(kib);
    periods.y.push_back(length_us);
  }
  XySeries round_trip{
      fmt::format("out and back at {:.4g} GB/s", analysis.bandwidth_bytes_per_s / 1e9),
      {},
      {},
      plot::Mark::kLine,
      kVermilion,
      true};
  for (const double bytes : {smallest, largest}) {
    round_trip.x.push_back(bytes / static_cast<double>(kKiB));
    round_trip.y.push_back(2 * bytes / analysis.bandwidth_bytes_per_s * 1e6);
  }
  XyChart chart;
  chart.title = "Length of inactive periods by size of tensor";
  chart.x = {"tensor (KiB)", true, {}, {}};
  chart.y = {"length (µs)", true, {}, {}};
  chart.series = {std::move(periods), std::move(round_trip)};
  return chart;
}

}  // namespace

plot::Figure analysis_figure(const Analysis& analysis) {
  plot::Figure figure;
  figure.title = model_and_batch(analysis.trace.model, analysis.trace.batch_size);
  figure.columns = 3;
  figure.panel_width_px = 560;
  figure.panels = {memory_chart(analysis), lengths_chart(analysis), sizes_chart(analysis)};
  return figure;
}

}  // namespace spillway
