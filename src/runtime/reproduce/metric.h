// The numbers that the G10 paper reports of an iteration. Layer: runtime.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/simulate.h"

namespace spillway::reproduce {

enum class Metric : std::uint8_t {
  kIterationS,
  kFractionOfIdeal,
  kStallS,
  kOverlapS,  // computation while data moved
  kComputeS,  // computation while nothing moved
  kHostToGpuPages,
  kGpuToHostPages,
  kSsdToGpuPages,
  kGpuToSsdPages,
};

// As reference files write them: "iteration_s", "ssd_to_gpu_pages" (of 4 KiB).
[[nodiscard]] std::string_view name_of(Metric metric);
[[nodiscard]] std::optional<Metric> find_metric(std::string_view name);

[[nodiscard]] double metric_value(Metric metric, const SimulationResult& result);

}  // namespace spillway::reproduce
