// AutoVM's experiments beside its numbers. Layer: runtime. docs/results.md has the grounds of what
// is chosen.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "plot/figure.h"
#include "runtime/reproduce/autovm/autovm_model.h"
#include "runtime/reproduce/near_memory/near_memory.h"

namespace spillway::reproduce {

// A point of figures 6.1, 6.3 and 6.4.
struct AutoVmPoint {
  ImageNetwork network = ImageNetwork::kAlexNet;
  double need = 0;  // in parts of the device's memory
  AutoVmTimes times;
};
// A point of figure 6.7.
struct AutoVmThreshold {
  Bytes least_bytes = 0;
  TimeNs autovm_ns = 0;
};

struct AutoVmStudy {
  std::vector<NearTable> tables;
  std::vector<AutoVmPoint> points;          // by network, then by need
  std::vector<AutoVmThreshold> thresholds;  // ascending
};

// Simulations of run_autovm, for a progress line.
[[nodiscard]] std::size_t autovm_steps();
// Everything, always the same. `on_done` hears how many steps are done.
[[nodiscard]] Result<AutoVmStudy> run_autovm(const std::function<void(std::size_t)>& on_done);

// Table 6.2 alone: percent by network and need, each with what was published.
[[nodiscard]] Result<NearTable> autovm_table62(const AutoVmSetup& setup,
                                               const std::function<void()>& on_done);

// Times and speed-ups of one network over its batch sizes (figures 6.1, 6.3 and 6.4), and times
// over the threshold (figure 6.7).
[[nodiscard]] plot::Figure autovm_figure(const AutoVmStudy& study, ImageNetwork network);
[[nodiscard]] plot::Figure autovm_threshold_figure(const AutoVmStudy& study);

}  // namespace spillway::reproduce
