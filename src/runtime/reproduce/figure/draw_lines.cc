// Figures 13, 15, 16, 17 and 18. See draw_panels.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "runtime/reproduce/figure/draw_panels.h"

namespace spillway::reproduce {
namespace {

// y over x of the cases that `takes` accepts, a solid line for ours and a dashed one for what was
// published.
struct Line {
  std::string name;
  int color = 0;
  std::function<bool(const Case&)> takes;
};
using Coordinate = std::function<double(const Case&)>;
using Height = std::function<double(Origin, const Case&)>;

void add_line(plot::XyChart& chart, const Numbers& numbers, const Line& line, const Coordinate& x,
              const Height& y) {
  std::map<double, const Case*> by_x;
  for (const Case& subject : numbers.cases()) {
    if (line.takes(subject)) {
      by_x.emplace(x(subject), &subject);
    }
  }
  for (const Origin origin : {Origin::kOurs, Origin::kPublished}) {
    plot::XySeries series{.name = origin == Origin::kOurs ? line.name : "",
                          .x = {},
                          .y = {},
                          .mark = plot::Mark::kLinePoints,
                          .color = line.color,
                          .dashed = origin == Origin::kPublished};
    for (const auto& [at, subject] : by_x) {
      if (const double height = y(origin, *subject); std::isfinite(height)) {
        series.x.push_back(at);
        series.y.push_back(height);
      }
    }
    // Markers are ours; a single published point needs one too, there is no line through it.
    if (series.dashed && series.x.size() > 1) {
      series.mark = plot::Mark::kLine;
    }
    if (!series.x.empty()) {
      chart.series.push_back(std::move(series));
    }
  }
}

void add_policy_lines(plot::XyChart& chart, const Numbers& numbers,
                      std::span<const std::string> policies,
                      const std::function<bool(const Case&)>& takes, const Coordinate& x,
                      const Height& y) {
  for (const std::string& policy : policies) {
    const PolicyStyle style = style_of(policy);
    add_line(chart, numbers,
             {std::string(style.label), style.color,
              [&](const Case& subject) { return subject.policy == policy && takes(subject); }},
             x, y);
  }
}

// How many times its duration each kernel took, ascending.
std::vector<double> slowdowns(const BatchOutcome& outcome) {
  std::vector<double> values;
  const std::vector<TimeNs>& durations_ns = outcome.trace->kernel_durations_ns;
  const std::vector<TimeNs>& stalls_ns = outcome.result->kernel_stalls_ns;
  for (std::size_t i = 0; i < std::min(durations_ns.size(), stalls_ns.size()); ++i) {
    values.push_back(1 + static_cast<double>(stalls_ns[i]) / static_cast<double>(durations_ns[i]));
  }
  std::sort(values.begin(), values.end());
  return values;
}

double host_gib(const Case& subject) { return subject.variation.host_gib.value_or(0); }

}  // namespace

std::vector<plot::Panel> slowdown_panels(const Numbers& numbers) {
  std::vector<plot::Panel> panels;
  for (const Workload& workload : numbers.workloads()) {
    plot::XyChart chart;
    chart.title = workload_label(workload);
    chart.x = {.label = "slowdown of a kernel", .log = true, .min = 1, .max = std::nullopt};
    chart.y = {.label = "kernels, %", .log = false, .min = 0, .max = 100};
    for (const std::string& policy : numbers.policies()) {
      const BatchOutcome* outcome =
          numbers.simulation({workload.model, workload.batch_size, policy, {}});
      if (outcome == nullptr) {
        continue;
      }
      const PolicyStyle style = style_of(policy);
      plot::XySeries series{.name = std::string(style.label),
                            .x = slowdowns(*outcome),
                            .y = {},
                            .mark = plot::Mark::kSteps,
                            .color = style.color};
      const auto kernels = static_cast<double>(series.x.size());
      for (std::size_t i = 0; i < series.x.size(); ++i) {
        series.y.push_back(100 * static_cast<double>(i + 1) / kernels);
      }
      chart.series.push_back(std::move(series));
    }
    panels.emplace_back(std::move(chart));
  }
  return panels;
}

std::vector<plot::Panel> batch_size_panels(const Numbers& numbers) {
  std::vector<plot::Panel> panels;
  for (const std::string& model : numbers.models()) {
    plot::XyChart chart;
    chart.title = model_label(model);
    chart.x = {.label = "batch size", .log = false, .min = 0, .max = std::nullopt};
    chart.y = {.label = "samples/s", .log = false, .min = 0, .max = std::nullopt};
    add_policy_lines(
        chart, numbers, numbers.policies(),
        [&](const Case& subject) { return subject.model == model; },
        [](const Case& subject) { return static_cast<double>(subject.batch_size); },
        [&](Origin origin, const Case& subject) {
          return static_cast<double>(subject.batch_size) /
                 numbers.value(origin, subject, Metric::kIterationS);
        });
    panels.emplace_back(std::move(chart));
  }
  return panels;
}

std::vector<plot::Panel> host_batch_panels(const Numbers& numbers) {
  std::vector<plot::Panel> panels;
  for (const std::string& model : numbers.models()) {
    plot::XyChart chart;
    chart.title = model_label(model);
    chart.x = {.label = "host memory, GiB", .log = false, .min = 0, .max = std::nullopt};
    chart.y = {.label = "iteration, s", .log = false, .min = 0, .max = std::nullopt};
    int color = 0;
    for (const std::uint64_t batch_size : numbers.batch_sizes(model)) {
      add_line(chart, numbers,
               {fmt::format("batch {}", batch_size), color++,
                [&](const Case& subject) {
                  return subject.model == model && subject.batch_size == batch_size;
                }},
               host_gib, [&](Origin origin, const Case& subject) {
                 return numbers.value(origin, subject, Metric::kIterationS);
               });
    }
    panels.emplace_back(std::move(chart));
  }
  return panels;
}

std::vector<plot::Panel> host_policy_panels(const Numbers& numbers) {
  const std::vector<std::string> policies{"flashneuron", "deepum_plus", "g10"};
  std::vector<plot::Panel> panels;
  for (const Workload& workload : numbers.workloads()) {
    const auto here = [&](const Case& subject) {
      return Workload{subject.model, subject.batch_size} == workload;
    };
    // Only what the figure draws in full has G10 too.
    if (std::none_of(numbers.cases().begin(), numbers.cases().end(), [&](const Case& subject) {
          return here(subject) && subject.policy == "g10";
        })) {
      continue;
    }
    plot::XyChart chart;
    chart.title = workload_label(workload);
    chart.x = {.label = "host memory, GiB", .log = false, .min = 0, .max = std::nullopt};
    chart.y = {.label = "iteration, s", .log = false, .min = 0, .max = std::nullopt};
    add_policy_lines(chart, numbers, policies, here, host_gib,
                     [&](Origin origin, const Case& subject) {
                       return numbers.value(origin, subject, Metric::kIterationS);
                     });
    panels.emplace_back(std::move(chart));
  }
  return panels;
}

std::vector<plot::Panel> ssd_bandwidth_panels(const Numbers& numbers) {
  std::vector<plot::Panel> panels;
  for (const Workload& workload : numbers.workloads()) {
    plot::XyChart chart;
    chart.title = workload_label(workload);
    chart.x = {.label = "SSD bandwidth, GB/s", .log = false, .min = 0, .max = std::nullopt};
    chart.y = {.label = "throughput, of ideal", .log = false, .min = 0, .max = 1.05};
    add_policy_lines(
        chart, numbers, numbers.policies(),
        [&](const Case& subject) {
          return Workload{subject.model, subject.batch_size} == workload;
        },
        [](const Case& subject) { return subject.variation.ssd_gbps.value_or(0); },
        [&](Origin origin, const Case& subject) {
          return numbers.fraction_of_ideal(origin, subject);
        });
    panels.emplace_back(std::move(chart));
  }
  return panels;
}

}  // namespace spillway::reproduce
