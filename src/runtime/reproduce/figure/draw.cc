// Which panels a figure has, and how they are laid out. See draw.h.
#include "runtime/reproduce/figure/draw.h"

#include <fmt/format.h>

#include "runtime/reproduce/figure/draw_panels.h"

namespace spillway::reproduce {
namespace {

plot::Figure bars(const Numbers& numbers,
                  plot::BarChart (*panel)(const Numbers& numbers, Origin origin)) {
  plot::Figure figure;
  figure.panel_width_px = 1080;
  figure.panel_height_px = 330;
  figure.panels.emplace_back(panel(numbers, Origin::kOurs));
  if (numbers.any(Origin::kPublished)) {
    figure.panels.emplace_back(panel(numbers, Origin::kPublished));
  }
  return figure;
}

plot::Figure lines(std::vector<plot::Panel> panels) {
  constexpr std::size_t kColumns = 3;
  plot::Figure figure;
  figure.columns = static_cast<int>(std::min(kColumns, std::max<std::size_t>(panels.size(), 1)));
  figure.panels = std::move(panels);
  figure.panel_width_px = 460;
  figure.panel_height_px = 360;
  return figure;
}

plot::Figure chart(Chart kind, const Numbers& numbers) {
  switch (kind) {
    case Chart::kThroughput:
      return bars(numbers, throughput_panel);
    case Chart::kBreakdown:
      return bars(numbers, breakdown_panel);
    case Chart::kTraffic:
      return bars(numbers, traffic_panel);
    case Chart::kProfilingError:
      return bars(numbers, profiling_error_panel);
    case Chart::kSlowdown:
      return lines(slowdown_panels(numbers));
    case Chart::kBatchSizes:
      return lines(batch_size_panels(numbers));
    case Chart::kHostBatches:
      return lines(host_batch_panels(numbers));
    case Chart::kHostPolicies:
      return lines(host_policy_panels(numbers));
    case Chart::kSsdBandwidth:
      return lines(ssd_bandwidth_panels(numbers));
  }
  return {};
}

}  // namespace

std::string workload_label(const Workload& workload) {
  return fmt::format("{}-{}", model_label(workload.model), workload.batch_size);
}

std::optional<plot::Figure> draw(const FigureDefinition& figure,
                                 std::span<const ReferenceRow> reference, const Study& study) {
  const Numbers numbers(figure, reference, study);
  if (!numbers.any(Origin::kOurs)) {
    return std::nullopt;
  }
  plot::Figure drawn = chart(figure.chart, numbers);
  if (drawn.panels.empty()) {
    return std::nullopt;
  }
  const bool is_dashed = drawn.columns > 1 && figure.compares;
  drawn.title = fmt::format("G10 figure {}: {}{}", figure.number, figure.title,
                            is_dashed ? " (dashed: as published)" : "");
  return drawn;
}

}  // namespace spillway::reproduce
