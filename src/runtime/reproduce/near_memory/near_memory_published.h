// The near-memory paper's tables 5 and 6. Layer: runtime.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace spillway::reproduce {

struct NearTable5Row {
  std::string_view device;
  double theoretical_mp_per_s;
  double measured_mp_per_s;
};
// The CPU, then the device.
[[nodiscard]] std::span<const NearTable5Row, 2> near_table5();

// One training iteration, in seconds.
struct NearTable6Side {
  double forward_s;
  double backward_s;
  double total_s;
};
struct NearTable6Row {
  std::string_view model;
  NearTable6Side baseline;
  NearTable6Side device;
  double backward_speedup;
  double total_speedup;
  double storage_peak_gb;
};
// In the order of table 4.
[[nodiscard]] std::span<const NearTable6Row, 5> near_table6();

}  // namespace spillway::reproduce
