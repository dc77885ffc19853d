// Metrics by name, and where they are in a result. See metric.h.
#include "runtime/reproduce/metric.h"

#include <algorithm>
#include <array>
#include <utility>

namespace spillway::reproduce {
namespace {

constexpr std::array<std::pair<Metric, std::string_view>, 9> kNames{{
    {Metric::kIterationS, "iteration_s"},
    {Metric::kFractionOfIdeal, "fraction_of_ideal"},
    {Metric::kStallS, "stall_s"},
    {Metric::kOverlapS, "overlap_s"},
    {Metric::kComputeS, "compute_s"},
    {Metric::kHostToGpuPages, "host_to_gpu_pages"},
    {Metric::kGpuToHostPages, "gpu_to_host_pages"},
    {Metric::kSsdToGpuPages, "ssd_to_gpu_pages"},
    {Metric::kGpuToSsdPages, "gpu_to_ssd_pages"},
}};

double pages(const SimulationResult& result, Tier from, Tier to) {
  return static_cast<double>(result.stats.moved(from, to)) / static_cast<double>(kPageBytes);
}

}  // namespace

std::string_view name_of(Metric metric) {
  return std::find_if(kNames.begin(), kNames.end(),
                      [metric](const auto& entry) { return entry.first == metric; })
      ->second;
}

std::optional<Metric> find_metric(std::string_view name) {
  const auto* const found = std::find_if(
      kNames.begin(), kNames.end(), [name](const auto& entry) { return entry.second == name; });
  return found == kNames.end() ? std::nullopt : std::optional(found->first);
}

double metric_value(Metric metric, const SimulationResult& result) {
  switch (metric) {
    case Metric::kIterationS:
      return to_seconds(result.iteration_ns);
    case Metric::kFractionOfIdeal:
      return result.fraction_of_ideal();
    case Metric::kStallS:
      return to_seconds(result.stall_ns());
    case Metric::kOverlapS:
      return to_seconds(result.overlap_ns());
    case Metric::kComputeS:
      return to_seconds(result.ideal_ns - result.overlap_ns());
    case Metric::kHostToGpuPages:
      return pages(result, Tier::kHost, Tier::kDevice);
    case Metric::kGpuToHostPages:
      return pages(result, Tier::kDevice, Tier::kHost);
    case Metric::kSsdToGpuPages:
      return pages(result, Tier::kStorage, Tier::kDevice);
    case Metric::kGpuToSsdPages:
      return pages(result, Tier::kDevice, Tier::kStorage);
  }
  return 0;
}

}  // namespace spillway::reproduce
