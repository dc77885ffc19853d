// Published numbers, one a line, to compare with. Layer: runtime.
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
