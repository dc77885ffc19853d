// Published numbers, one a line, to compare with. Layer: runtime.
//
// A CSV file with the columns
//   figure      fig11_overall, fig12_breakdown, fig14_traffic, fig15_batch, fig16_17_host_memory,
//               fig18_ssd_bandwidth, fig19_profiling_error
//   model, batch_size, policy
//   variation   empty, or parts joined by ';': host_gib=N, ssd_gbps=N, pcie_gbps=N, error=N%
//   metric      iteration_s, fraction_of_ideal, stall_s, overlap_s, compute_s; host_to_gpu_pages,
//               gpu_to_host_pages, ssd_to_gpu_pages, gpu_to_ssd_pages (4 KiB)
//   value       empty where the policy cannot run the case
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "runtime/reproduce/metric.h"
#include "runtime/reproduce/variation.h"

namespace spillway::reproduce {

// One simulation: the trace DIR/<model>-<batch_size>, a policy and what is varied.
struct Case {
  std::string model;
  std::uint64_t batch_size = 0;
  std::string policy;
  Variation variation;

  friend auto operator<=>(const Case&, const Case&) = default;
};

struct ReferenceRow {
  std::string figure;
  Case subject;
  Metric metric = Metric::kIterationS;
  std::optional<double> value;  // nullopt: the policy cannot run the case
};

// A CSV file with the line "figure,model,batch_size,policy,variation,metric,value" first, no
// quotes, and an empty value where the policy cannot run the case. Fails with one line that names
// the file, the line and what is wrong: kInvalidInput, or kIo.
[[nodiscard]] Result<std::vector<ReferenceRow>> read_reference(const std::filesystem::path& path);
// The same from text; `name` stands for it in messages.
[[nodiscard]] Result<std::vector<ReferenceRow>> parse_reference(std::string_view text,
                                                                std::string_view name);

}  // namespace spillway::reproduce
