// Text and chart. See near_memory_timeline.h.
#include "runtime/reproduce/near_memory/near_memory_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

namespace spillway::reproduce {
namespace {

using sim::near_memory::Iteration;
using sim::near_memory::kLanes;
using sim::near_memory::Lane;
using sim::near_memory::Span;

struct LaneName {
  Lane lane;
  std::string_view name;
};
constexpr std::array<LaneName, kLanes> kLaneNames{{
    {Lane::kGpu, "GPU computes"},
    {Lane::kFetch, "parameters to GPU"},
    {Lane::kSend, "gradients to memory"},
    {Lane::kUpdate, "update"},
    {Lane::kGather, "NVMe to memory"},
    {Lane::kEvict, "memory to NVMe"},
}};

char letter(std::uint32_t layer) {
  constexpr std::string_view kLetters =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return layer < kLetters.size() ? kLetters[layer] : '*';
}

// The layer that runs longest in each column.
std::string lane_text(const Iteration& iteration, Lane lane, std::size_t columns) {
  std::vector<std::map<std::uint32_t, double>> busy(columns);
  const double column_ns = static_cast<double>(iteration.total_ns()) / static_cast<double>(columns);
  for (const Span& span : iteration.spans) {
    if (span.lane != lane) {
      continue;
    }
    const auto begin = static_cast<double>(span.begin_ns - iteration.begin_ns) / column_ns;
    const auto end = static_cast<double>(span.end_ns - iteration.begin_ns) / column_ns;
    for (auto column = static_cast<std::size_t>(begin);
         column < columns && static_cast<double>(column) < end; ++column) {
      const auto from = std::max(begin, static_cast<double>(column));
      busy[column][span.layer] += std::min(end, static_cast<double>(column + 1)) - from;
    }
  }
  std::string text;
  for (const auto& layers : busy) {
    const auto longest = std::max_element(
        layers.begin(), layers.end(),
        [](const auto& left, const auto& right) { return left.second < right.second; });
    constexpr double kSeen = 0.05;  // of a column
    text += longest == layers.end() || longest->second < kSeen ? '.' : letter(longest->first);
  }
  return text;
}

plot::XyChart lane_chart(const Iteration& iteration, const LaneName& lane) {
  plot::XyChart chart;
  chart.title = std::string(lane.name);
  chart.legend = false;
  chart.x = {"", false, 0, to_seconds(iteration.total_ns())};
  chart.y = {"", false, 0, 1};
  for (int color = 0; color < plot::kColors; ++color) {
    chart.series.push_back({"", {0}, {0}, plot::Mark::kArea, color});
  }
  for (const Span& span : iteration.spans) {
    if (span.lane != lane.lane) {
      continue;
    }
    plot::XySeries& series = chart.series[span.layer % plot::kColors];
    const double begin = to_seconds(span.begin_ns - iteration.begin_ns);
    const double end = to_seconds(span.end_ns - iteration.begin_ns);
    series.x.insert(series.x.end(), {begin, begin, end, end});
    series.y.insert(series.y.end(), {0, 1, 1, 0});
  }
  return chart;
}

}  // namespace

std::string timeline_text(const Iteration& iteration, std::size_t columns) {
  const auto middle = static_cast<std::size_t>(static_cast<double>(columns) *
                                               static_cast<double>(iteration.forward_ns) /
                                               static_cast<double>(iteration.total_ns()));
  std::string text;
  for (const LaneName& lane : kLaneNames) {
    std::string line = lane_text(iteration, lane.lane, columns);
    line.insert(middle, 1, '|');
    text += fmt::format("{:<20}  {}\n", lane.name, line);
  }
  return text;
}

plot::Figure timeline_figure(const Iteration& iteration, const std::string& title) {
  plot::Figure figure;
  figure.title = fmt::format("{}, seconds", title);
  figure.panel_width_px = 1080;
  figure.panel_height_px = 150;
  for (const LaneName& lane : kLaneNames) {
    figure.panels.emplace_back(lane_chart(iteration, lane));
  }
  return figure;
}

}  // namespace spillway::reproduce
