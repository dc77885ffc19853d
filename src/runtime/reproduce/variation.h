// What a figure changes about the machine or the run, and nothing else. Layer: runtime.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "machine/machine.h"
#include "runtime/simulate.h"

namespace spillway::reproduce {

// "" changes nothing. Several are joined by ';'.
struct Variation {
  std::optional<double> host_gib = std::nullopt;  // "host_gib=64": host memory
  std::optional<double> ssd_gbps =
      std::nullopt;  // "ssd_gbps=6.4": storage, reading and writing, GB/s
  std::optional<double> pcie_gbps = std::nullopt;  // "pcie_gbps=32": the link, each way, GB/s
  std::optional<double> error_percent =
      std::nullopt;  // "error=5%": kernel times that a planner sees

  friend auto operator<=>(const Variation&, const Variation&) = default;
};

// Fails with kInvalidInput on an unknown key, a bad or negative number and a repeated key.
[[nodiscard]] Result<Variation> parse_variation(std::string_view text);
// What parse_variation reads back as an equal variation.
[[nodiscard]] std::string to_text(const Variation& variation);

// Fails with kInvalidInput where the machine cannot be varied so.
[[nodiscard]] Status apply_variation(const Variation& variation, Machine& machine,
                                     SimulationOptions& options);

}  // namespace spillway::reproduce
