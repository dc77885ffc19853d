// See report_chart.h.
#include "runtime/host/report_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "runtime/host/report_html.h"

namespace spillway {
namespace {

// The drawing's own units; the page scales it to its width.
constexpr double kWidth = 900;
constexpr double kHeight = 240;
constexpr double kLeft = 84;
constexpr double kRight = 16;
constexpr double kTop = 12;
constexpr double kBottom = 40;

struct Frame {
  double end_s;
  double high;
  double low;  // a positive number of units below zero

  [[nodiscard]] double x(double at_s) const {
    return kLeft + (kWidth - kLeft - kRight) * at_s / end_s;
  }
  [[nodiscard]] double y(double value) const {
    return kTop + (kHeight - kTop - kBottom) * (high - value) / (high + low);
  }
};

double last_of(const std::vector<AxisTick>& ticks) {
  return ticks.empty() ? 0 : ticks.back().value;
}

void add_grid(std::string& svg, const Frame& frame, const AxisTick& tick, double sign) {
  const double y = frame.y(sign * tick.value);
  svg += fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
      "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
      tick.value == 0 ? "zero" : "grid", kLeft, y, kWidth - kRight, y, kLeft - 8, y + 4,
      tick.label);
}

void add_time_axis(std::string& svg, const Frame& frame) {
  const double y = kHeight - kBottom;
  for (const AxisTick& tick : second_ticks(frame.end_s)) {
    if (tick.value > frame.end_s) {
      continue;  // the axis ends with the run, not at a round number
    }
    const double x = frame.x(tick.value);
    svg += fmt::format(
        "<line class=\"mark\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>"
        "<text class=\"tick\" x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        x, y, y + 4, y + 17, tick.label);
  }
  svg += fmt::format(
      "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">time since the first "
      "large allocation</text>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 5);
}

// Steps, since every span has one value. Corners only where the value changes.
void add_series(std::string& svg, const Frame& frame, const ChartSeries& series, double sign) {
  if (series.values.empty()) {
    return;
  }
  const double span_s = frame.end_s / static_cast<double>(series.values.size());
  std::string path = fmt::format("M{:.1f} {:.1f}", kLeft, frame.y(sign * series.values.front()));
  for (std::size_t i = 1; i < series.values.size(); ++i) {
    if (series.values[i] != series.values[i - 1]) {
      path += fmt::format("H{:.1f}V{:.1f}", frame.x(span_s * static_cast<double>(i)),
                          frame.y(sign * series.values[i]));
    }
  }
  path += fmt::format("H{:.1f}", kWidth - kRight);
  if (series.filled) {
    svg += fmt::format("<path class=\"fill {}\" d=\"{}V{:.1f}H{:.1f}Z\"/>\n", series.style, path,
                       frame.y(0), kLeft);
  }
  svg += fmt::format("<path class=\"line {}\" d=\"{}\"/>\n", series.style, path);
}

void add_tooltips(std::string& svg, const Frame& frame, const std::vector<std::string>& tooltips) {
  const double span_s =
      frame.end_s / static_cast<double>(std::max<std::size_t>(tooltips.size(), 1));
  for (std::size_t i = 0; i < tooltips.size(); ++i) {
    svg += fmt::format(
        "<rect class=\"span\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\">"
        "<title>{}</title></rect>\n",
        frame.x(span_s * static_cast<double>(i)), kTop, frame.x(span_s) - kLeft,
        kHeight - kTop - kBottom, escape_html(tooltips[i]));
  }
}

std::string legend(const TimeChart& chart) {
  std::string html = "<p class=\"legend\">";
  const auto add = [&](const std::string& kind, const std::string& label) {
    html += fmt::format(
        "<span><svg class=\"key\" viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path class=\"{}\" "
        "d=\"M0 5H28\"/></svg>{}</span> ",
        kind, escape_html(label));
  };
  for (const auto* all : {&chart.series, &chart.series_low}) {
    for (const ChartSeries& series : *all) {
      add("line " + series.style, series.label);
    }
  }
  for (const ChartLimit& limit : chart.limits) {
    add("limit " + limit.style, limit.label);
  }
  return html + "</p>\n";
}

}  // namespace

std::vector<AxisTick> byte_ticks(double highest, const char* per) {
  constexpr double kTicks = 4;
  double step = 1;
  while (step * kTicks < highest) {
    step *= 2;
  }
  std::vector<AxisTick> ticks{{0, "0"}};
  while (ticks.back().value < highest) {
    const double value = ticks.back().value + step;
    ticks.push_back({value, format_bytes(static_cast<Bytes>(value)) + per});
  }
  return ticks;
}

std::vector<AxisTick> second_ticks(double highest) {
  constexpr double kTicks = 8;
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  double step = 0;
  if (highest <= kTicks * 30) {
    // 1, 2 or 5 times a power of ten
    const double least = highest / kTicks;
    const double power = std::pow(10.0, std::floor(std::log10(least)));
    step = power;
    for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
      if (factor * power >= least) {
        step = factor * power;
        break;
      }
    }
  } else {
    step = kMinute;
    for (const double minutes : {1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0}) {
      step = minutes * kMinute;
      if (step * kTicks >= highest) {
        break;
      }
    }
    while (step * kTicks < highest) {
      step *= 2;
    }
  }
  const auto label = [&](double value) {
    return step >= kHour     ? fmt::format("{:g} h", value / kHour)
           : step >= kMinute ? fmt::format("{:g} min", value / kMinute)
                             : fmt::format("{:.4g} s", value);
  };
  std::vector<AxisTick> ticks{{0, "0"}};
  while (ticks.back().value < highest) {
    const double value = step * static_cast<double>(ticks.size());
    ticks.push_back({value, label(value)});
  }
  return ticks;
}

std::string chart_html(const TimeChart& chart) {
  const Frame frame{.end_s = chart.end_s,
                    .high = std::max(last_of(chart.ticks), 1e-9),
                    .low = last_of(chart.ticks_low)};
  std::string svg = fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n",
      kWidth, kHeight, escape_html(chart.label));
  for (const AxisTick& tick : chart.ticks) {
    add_grid(svg, frame, tick, 1);
  }
  for (const AxisTick& tick : chart.ticks_low) {
    if (tick.value > 0) {
      add_grid(svg, frame, tick, -1);
    }
  }
  add_time_axis(svg, frame);
  for (const ChartSeries& series : chart.series) {
    add_series(svg, frame, series, 1);
  }
  for (const ChartSeries& series : chart.series_low) {
    add_series(svg, frame, series, -1);
  }
  for (const ChartLimit& limit : chart.limits) {
    const double y = frame.y(limit.value);
    svg += fmt::format("<path class=\"limit {}\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", limit.style,
                       kLeft, y, kWidth - kRight);
  }
  const auto note = [&](const std::string& text, double y) {
    svg += fmt::format(
        "<text class=\"note\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kWidth - kRight - 4, y, escape_html(text));
  };
  note(chart.high_note, kTop + 12);
  note(chart.low_note, kHeight - kBottom - 6);
  add_tooltips(svg, frame, chart.tooltips);
  return legend(chart) + svg + "</svg>\n";
}

}  // namespace spillway
