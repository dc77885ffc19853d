// See report_session_charts.h. The colours are those of the palette of plot/figure.h, which the
// style sheet of the page (report_html.cc) knows.
#include "runtime/report/report_session_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "plot/figure.h"
#include "plot/svg.h"
#include "runtime/record/run_fields.h"
#include "runtime/report/report_html.h"
#include "runtime/report/report_timeline.h"

namespace spillway {
namespace {

constexpr std::size_t kSpansMax = 240;

// By tier; and for what is no tier's.
constexpr std::array kTierColors{0, 1, 2};
constexpr int kStallColor = 3;
constexpr int kBetweenColor = 5;
constexpr int kLiveColor = 7;

struct Unit {
  const char* name;
  double size;
};

// The largest in which `highest` is at least 1, of units that are listed from the largest.
template <std::size_t kCount>
Unit unit_for(double highest, const std::array<Unit, kCount>& units) {
  const auto found = std::find_if(units.begin(), units.end(),
                                  [&](const Unit& unit) { return highest >= unit.size; });
  return found == units.end() ? units.back() : *found;
}

Unit byte_unit(double highest_bytes) {
  return unit_for(highest_bytes, std::array{Unit{"TiB", kTiB}, Unit{"GiB", kGiB}, Unit{"MiB", kMiB},
                                            Unit{"KiB", kKiB}, Unit{"B", 1}});
}

Unit time_unit(double highest_s) {
  constexpr double kSome = 3;  // minutes from three of them on
  Unit unit = unit_for(highest_s / kSome, std::array{Unit{"hours", 3600}, Unit{"minutes", 60}});
  return highest_s < kSome * unit.size ? Unit{"s", 1} : unit;
}

const char* memory_name(Tier tier) {
  return tier == Tier::kDevice ? "device memory" : tier == Tier::kHost ? "host memory" : "storage";
}

// A chart over the time of the spans.
class TimeChart {
 public:
  TimeChart(const std::vector<TimelineSpan>& spans, const char* title)
      : spans_(spans), time_(time_unit(spans.back().to_s)) {
    chart_.title = title;
    chart_.x = {.label = fmt::format("time since the first large allocation ({})", time_.name),
                .log = false,
                .min = 0,
                .max = spans.back().to_s / time_.size};
  }

  // Every span has one value.
  template <typename Value>
  void add(std::string name, int color, plot::Mark mark, Value value) {
    plot::XySeries series{
        .name = std::move(name), .x = {}, .y = {}, .mark = mark, .color = color, .dashed = false};
    for (const TimelineSpan& span : spans_) {
      const auto height = static_cast<double>(value(span));
      highest_ = std::max(highest_, std::abs(height));
      series.x.insert(series.x.end(), {span.from_s / time_.size, span.to_s / time_.size});
      series.y.insert(series.y.end(), {height, height});
    }
    chart_.series.push_back(std::move(series));
  }
  void add_limit(std::string name, int color, double value) {
    highest_ = std::max(highest_, value);
    chart_.series.push_back({.name = std::move(name),
                             .x = {0, spans_.back().to_s / time_.size},
                             .y = {value, value},
                             .mark = plot::Mark::kLine,
                             .color = color,
                             .dashed = true});
  }
  [[nodiscard]] double highest() const { return highest_; }

  // In the unit that suits the values; per: what follows it on the axis.
  plot::XyChart in_bytes(const char* per, std::optional<double> lowest) && {
    const Unit unit = byte_unit(highest_);
    for (plot::XySeries& series : chart_.series) {
      for (double& value : series.y) {
        value /= unit.size;
      }
    }
    chart_.y = {.label = std::string(unit.name) + per, .log = false, .min = lowest, .max = {}};
    return std::move(chart_);
  }
  plot::XyChart of_axis(plot::Axis axis) && {
    chart_.y = std::move(axis);
    return std::move(chart_);
  }

 private:
  const std::vector<TimelineSpan>& spans_;
  Unit time_;
  double highest_ = 0;
  plot::XyChart chart_;
};

// Budgets that would flatten everything below them are named in `beyond` instead.
plot::XyChart tiers_chart(const RunRecord& session, const std::vector<TimelineSpan>& spans,
                          std::string& beyond) {
  constexpr double kWithinSight = 1.5;  // of all that was used
  TimeChart chart(spans, "Tiers");
  chart.add("alive, wherever it is", kLiveColor, plot::Mark::kLine,
            [](const auto& span) { return span.live_bytes; });
  for (const Tier tier : kRecordTiers) {
    if (session.budget(tier) > 0) {
      chart.add(memory_name(tier), kTierColors[index_of(tier)], plot::Mark::kLine,
                [&](const auto& span) { return span.used_bytes[index_of(tier)]; });
    }
  }
  const double in_sight = kWithinSight * chart.highest();
  for (const Tier tier : kRecordTiers) {
    const Bytes budget_bytes = session.budget(tier);
    const auto budget = static_cast<double>(budget_bytes);
    if (budget_bytes > 0 && budget <= in_sight) {
      chart.add_limit(fmt::format("budget of {}", memory_name(tier)), kTierColors[index_of(tier)],
                      budget);
    } else if (budget_bytes > 0) {
      beyond += fmt::format("{}{} of {}", beyond.empty() ? "" : ", ", format_bytes(budget_bytes),
                            memory_name(tier));
    }
  }
  return std::move(chart).in_bytes("", 0);
}

// Into device memory above the axis, out of it below. Device memory is one end of all routes but
// one, so colours tell the other end.
std::optional<plot::XyChart> migrations_chart(const std::vector<TimelineSpan>& spans) {
  TimeChart chart(spans, "Migrations: into device memory above 0, out of it below");
  for (const Route& route : kRoutes) {
    const bool in = route.to == Tier::kDevice;
    const Tier other = in ? route.from : route.to;
    const auto rate = [&](const TimelineSpan& span) {
      return span.moved_bytes_per_s[index_of(route.from)][index_of(route.to)];
    };
    if (std::any_of(spans.begin(), spans.end(), [&](const auto& span) { return rate(span) > 0; })) {
      chart.add(route.caption,
                in || route.from == Tier::kDevice ? kTierColors[index_of(other)] : kBetweenColor,
                plot::Mark::kLine, [&](const auto& span) { return in ? rate(span) : -rate(span); });
    }
  }
  if (chart.highest() == 0) {
    return std::nullopt;
  }
  return std::move(chart).in_bytes("/s", std::nullopt);
}

plot::XyChart stalls_chart(const std::vector<TimelineSpan>& spans) {
  constexpr double kWhole = 100;
  TimeChart chart(spans, "Stalls");
  chart.add("at least one thread waited for memory", kStallColor, plot::Mark::kArea,
            [](const auto& span) { return kWhole * span.stalled_fraction; });
  return std::move(chart).of_axis(
      {.label = "% of the time", .log = false, .min = 0, .max = kWhole});
}

}  // namespace

std::string session_charts(const RunRecord& session) {
  const std::vector<TimelineSpan> spans = spans_of(session.timeline, kSpansMax);
  if (spans.empty()) {
    return "<p>The run ended before its first sample was taken: there is nothing to draw.</p>\n";
  }
  plot::Figure figure;
  figure.panel_width_px = 900;
  figure.panel_height_px = 300;
  figure.transparent = true;
  std::string beyond;
  std::string remarks;
  figure.panels.emplace_back(tiers_chart(session, spans, beyond));
  if (!beyond.empty()) {
    remarks += fmt::format("<p class=\"legend\">Budgets above the chart: {}.</p>\n", beyond);
  }
  if (std::optional<plot::XyChart> migrations = migrations_chart(spans)) {
    figure.panels.emplace_back(std::move(*migrations));
  } else {
    remarks += "<p class=\"legend\">Nothing moved between the tiers.</p>\n";
  }
  figure.panels.emplace_back(stalls_chart(spans));
  const Result<std::string> drawing = plot::draw_svg_element(
      figure, "chart", "Tiers, migrations and stalls over the time of the run");
  return "<h3>Over time</h3>\n" +
         (drawing ? *drawing + "\n"
                  : fmt::format("<p class=\"advice\">There are no charts: {}.</p>\n",
                                escape_html(drawing.error().message))) +
         remarks;
}

}  // namespace spillway
