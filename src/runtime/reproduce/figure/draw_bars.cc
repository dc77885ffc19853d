// Figures 11, 12, 14 and 19. See draw_panels.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "runtime/reproduce/figure/draw_panels.h"

namespace spillway::reproduce {
namespace {

struct Layer {
  Metric metric;
  std::string_view name;
  int color;
};

constexpr std::array<Layer, 3> kBreakdown{{
    {Metric::kComputeS, "computation alone", 4},
    {Metric::kOverlapS, "computation beside migration", 0},
    {Metric::kStallS, "stall", 3},
}};
constexpr std::array<Layer, 4> kTraffic{{
    {Metric::kSsdToGpuPages, "SSD to GPU", 4},
    {Metric::kGpuToSsdPages, "GPU to SSD", 0},
    {Metric::kHostToGpuPages, "host to GPU", 6},
    {Metric::kGpuToHostPages, "GPU to host", 1},
}};

std::string title_of(Origin origin) {
  return origin == Origin::kOurs ? "Spillway" : "As published";
}

// A stack for each workload and policy, a series for each layer.
plot::BarChart stacks(const Numbers& numbers, Origin origin, std::span<const Layer> layers) {
  plot::BarChart chart;
  chart.title = title_of(origin);
  chart.layout = plot::BarLayout::kStacked;
  for (const Layer& layer : layers) {
    chart.series.push_back({std::string(layer.name), {}, layer.color});
  }
  for (const Workload& workload : numbers.workloads()) {
    for (const std::string& policy : numbers.policies()) {
      chart.categories.push_back({std::string(style_of(policy).label), workload_label(workload)});
      for (std::size_t i = 0; i < layers.size(); ++i) {
        chart.series[i].values.push_back(numbers.value(
            origin, {workload.model, workload.batch_size, policy, {}}, layers[i].metric));
      }
    }
  }
  return chart;
}

double stack_height(const plot::BarChart& chart, std::size_t category) {
  double height = 0;
  for (const plot::BarSeries& series : chart.series) {
    height += series.values[category];
  }
  return height;
}

}  // namespace

plot::BarChart throughput_panel(const Numbers& numbers, Origin origin) {
  plot::BarChart chart;
  chart.title = title_of(origin);
  chart.y = {.label = "throughput, of ideal", .log = false, .min = 0, .max = 1.05};
  chart.reference = 1;
  for (const std::string& policy : numbers.policies()) {
    const PolicyStyle style = style_of(policy);
    chart.series.push_back({std::string(style.label), {}, style.color});
    for (const Workload& workload : numbers.workloads()) {
      chart.series.back().values.push_back(
          numbers.fraction_of_ideal(origin, {workload.model, workload.batch_size, policy, {}}));
    }
  }
  for (const Workload& workload : numbers.workloads()) {
    chart.categories.push_back({workload_label(workload), ""});
  }
  return chart;
}

plot::BarChart breakdown_panel(const Numbers& numbers, Origin origin) {
  plot::BarChart chart = stacks(numbers, origin, kBreakdown);
  chart.y = {.label = "share of an iteration, %", .log = false, .min = 0, .max = 101};
  for (std::size_t category = 0; category < chart.categories.size(); ++category) {
    const double whole = stack_height(chart, category);
    for (plot::BarSeries& series : chart.series) {
      series.values[category] *= 100 / whole;
    }
  }
  return chart;
}

plot::BarChart traffic_panel(const Numbers& numbers, Origin origin) {
  plot::BarChart chart = stacks(numbers, origin, kTraffic);
  const auto tib = static_cast<double>(kPageBytes) / static_cast<double>(kTiB);
  for (plot::BarSeries& series : chart.series) {
    for (double& value : series.values) {
      value *= tib;
    }
  }
  // On-demand paging moves many times what the others do; its bars are cut off so that theirs can
  // be seen, and say how high they are.
  double highest = 0;
  for (std::size_t category = 0; category < chart.categories.size(); ++category) {
    const double height = stack_height(chart, category);
    if (chart.categories[category].label != style_of("base_uvm").label && std::isfinite(height)) {
      highest = std::max(highest, height);
    }
  }
  chart.y = {.label = "TiB an iteration", .log = false, .min = 0, .max = std::nullopt};
  if (highest > 0) {
    chart.y.max = 1.2 * highest;
  }
  return chart;
}

plot::BarChart profiling_error_panel(const Numbers& numbers, Origin origin) {
  plot::BarChart chart;
  chart.title = title_of(origin);
  std::set<double> errors;
  for (const Case& subject : numbers.cases()) {
    errors.insert(subject.variation.error_percent.value_or(0));
  }
  const auto relative = [&](Origin of, const Workload& workload, double error) {
    const auto fraction = [&](double with_error) {
      return numbers.value(
          of, {workload.model, workload.batch_size, "g10", {.error_percent = with_error}},
          Metric::kFractionOfIdeal);
    };
    return fraction(error) / fraction(0);
  };
  double lowest = 1;
  double highest = 1;
  int color = 0;
  for (const double error : errors) {
    chart.series.push_back({fmt::format("{:g} %", error), {}, color++});
    for (const Workload& workload : numbers.workloads()) {
      chart.series.back().values.push_back(relative(origin, workload, error));
      for (const Origin of : {Origin::kOurs, Origin::kPublished}) {  // one scale for both panels
        lowest = std::fmin(lowest, relative(of, workload, error));
        highest = std::fmax(highest, relative(of, workload, error));
      }
    }
  }
  // Bars that start at 0 would hide differences below one percent.
  chart.y = {.label = "performance, of no error",
             .log = false,
             .min = std::floor(lowest * 200 - 1) / 200,
             .max = std::ceil(highest * 200 + 0.5) / 200};
  chart.reference = 1;
  for (const Workload& workload : numbers.workloads()) {
    chart.categories.push_back({workload_label(workload), ""});
  }
  return chart;
}

}  // namespace spillway::reproduce
