// See report_session_charts.h.
#include "runtime/host/report_session_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/host/report_chart.h"
#include "runtime/host/report_timeline.h"

namespace spillway {
namespace {

constexpr std::size_t kSpansMax = 240;  // about as many as a mouse can point at
constexpr std::array kTiers{Tier::kDevice, Tier::kHost, Tier::kStorage};

struct Route {
  Tier from;
  Tier to;
  const char* style;
  const char* label;
  bool into_device;
};

// Device memory is one end of all routes but the last, so colours tell the other end.
constexpr std::array kRoutes{
    Route{Tier::kHost, Tier::kDevice, "host", "in from host memory", true},
    Route{Tier::kStorage, Tier::kDevice, "storage", "in from storage", true},
    Route{Tier::kDevice, Tier::kHost, "host", "out to host memory", false},
    Route{Tier::kDevice, Tier::kStorage, "storage", "out to storage", false},
    Route{Tier::kHost, Tier::kStorage, "between", "host memory to storage", false},
};

const char* memory_name(Tier tier) {
  return tier == Tier::kDevice ? "device memory" : tier == Tier::kHost ? "host memory" : "storage";
}

template <typename Value>
std::vector<double> each(const std::vector<TimelineSpan>& spans, Value value) {
  std::vector<double> values;
  values.reserve(spans.size());
  for (const TimelineSpan& span : spans) {
    values.push_back(static_cast<double>(value(span)));
  }
  return values;
}

double highest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

std::string when(const TimelineSpan& span) {
  return fmt::format("{:.2f} to {:.2f} s", span.from_s, span.to_s);
}

std::string rate_text(double bytes_per_s) {
  return format_bytes(static_cast<Bytes>(bytes_per_s)) + "/s";
}

std::string tiers_chart(const RunRecord& session, const std::vector<TimelineSpan>& spans) {
  // A budget far above all that was used would flatten everything below it.
  constexpr double kWithinSight = 1.5;
  TimeChart chart;
  chart.label = "Bytes in each tier over time";
  chart.end_s = spans.back().to_s;
  chart.series.push_back({.style = "live",
                          .label = "alive, wherever it is",
                          .values = each(spans, [](const auto& span) { return span.live_bytes; })});
  double top = highest(chart.series.front().values);
  for (const Tier tier : kTiers) {
    if (session.budget_bytes[index_of(tier)] == 0) {
      continue;
    }
    chart.series.push_back(
        {.style = std::string(name_of(tier)),
         .label = memory_name(tier),
         .values = each(spans, [&](const auto& span) { return span.used_bytes[index_of(tier)]; })});
    top = std::max(top, highest(chart.series.back().values));
  }
  const double in_sight = kWithinSight * top;
  std::string beyond;
  for (const Tier tier : kTiers) {
    const Bytes budget_bytes = session.budget_bytes[index_of(tier)];
    if (budget_bytes == 0) {
      continue;
    }
    const auto budget = static_cast<double>(budget_bytes);
    if (budget <= in_sight) {
      chart.limits.push_back(
          {.style = std::string(name_of(tier)),
           .label = fmt::format("budget of {}, {}", memory_name(tier), format_bytes(budget_bytes)),
           .value = budget});
      top = std::max(top, budget);
    } else {
      beyond += fmt::format("{}{} of {}", beyond.empty() ? "" : ", ", format_bytes(budget_bytes),
                            memory_name(tier));
    }
  }
  chart.ticks = byte_ticks(top);
  for (const TimelineSpan& span : spans) {
    std::string& text = chart.tooltips.emplace_back(when(span));
    text += fmt::format("\nalive {}", format_bytes(span.live_bytes));
    for (const Tier tier : kTiers) {
      text +=
          fmt::format("\n{} {}", memory_name(tier), format_bytes(span.used_bytes[index_of(tier)]));
    }
  }
  return "<h3>Tiers over time</h3>\n" + chart_html(chart) +
         (beyond.empty()
              ? ""
              : fmt::format("<p class=\"legend\">Budgets above the chart: {}.</p>\n", beyond));
}

std::string migrations_chart(const std::vector<TimelineSpan>& spans) {
  TimeChart chart;
  chart.label = "Bytes a second into and out of device memory over time";
  chart.end_s = spans.back().to_s;
  double top = 0;
  double bottom = 0;
  for (const Route& route : kRoutes) {
    ChartSeries series{
        .style = route.style,
        .label = route.label,
        .values = each(spans,
                       [&](const auto& span) {
                         return span.moved_bytes_per_s[index_of(route.from)][index_of(route.to)];
                       }),
        .filled = route.into_device};
    const double most = highest(series.values);
    if (most == 0) {
      continue;
    }
    double& edge = route.into_device ? top : bottom;
    edge = std::max(edge, most);
    (route.into_device ? chart.series : chart.series_low).push_back(std::move(series));
  }
  const std::string title = "<h3>Migrations over time</h3>\n";
  if (top + bottom == 0) {
    return title + "<p>Nothing moved between the tiers.</p>\n";
  }
  // Both halves in one scale, with the labels that suit the larger.
  const std::vector<AxisTick> ticks = byte_ticks(std::max(top, bottom), "/s");
  const auto up_to = [&](double edge) {
    std::vector<AxisTick> some;
    for (const AxisTick& tick : ticks) {
      if (!some.empty() && some.back().value >= edge) {
        break;
      }
      some.push_back(tick);
    }
    return some;
  };
  chart.ticks = up_to(std::max(top, 1.0));
  chart.ticks_low = up_to(std::max(bottom, 1.0));
  chart.high_note = "into device memory";
  chart.low_note = "out of device memory";
  for (const TimelineSpan& span : spans) {
    std::string& text = chart.tooltips.emplace_back(when(span));
    for (const Route& route : kRoutes) {
      const double rate = span.moved_bytes_per_s[index_of(route.from)][index_of(route.to)];
      if (rate > 0) {
        text += fmt::format("\n{} {}", route.label, rate_text(rate));
      }
    }
  }
  return title + chart_html(chart);
}

std::string stalls_chart(const std::vector<TimelineSpan>& spans) {
  TimeChart chart;
  chart.label = "Part of the time in which a thread waited for memory, over time";
  chart.end_s = spans.back().to_s;
  for (const int percent : {0, 25, 50, 75, 100}) {
    chart.ticks.push_back(
        {static_cast<double>(percent) / 100, percent == 0 ? "0" : fmt::format("{} %", percent)});
  }
  chart.series.push_back(
      {.style = "stall",
       .label = "of the time, at least one thread waited for memory",
       .values = each(spans, [](const auto& span) { return span.stalled_fraction; }),
       .filled = true});
  for (const TimelineSpan& span : spans) {
    chart.tooltips.push_back(fmt::format("{}\nstalled {:.0f} % of it\n{:.0f} faults a second",
                                         when(span), 100 * span.stalled_fraction,
                                         span.page_faults_per_s));
  }
  return "<h3>Stalls over time</h3>\n" + chart_html(chart);
}

}  // namespace

std::string session_charts(const RunRecord& session) {
  const std::vector<TimelineSpan> spans = spans_of(session.timeline, kSpansMax);
  if (spans.empty()) {
    return "<p>The run ended before its first sample was taken: there is nothing to draw.</p>\n";
  }
  return tiers_chart(session, spans) + migrations_chart(spans) + stalls_chart(spans);
}

}  // namespace spillway
