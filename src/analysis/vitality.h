// Tensor vitality: when each tensor lives, and when it lies idle while it lives.
// Layer: analysis. The facts that planners work from (G10 section 4.2).
#pragma once

#include <optional>
#include <vector>

#include "trace/trace.h"

namespace spillway {

// First and last kernel that use a tensor. A persistent tensor lives through the whole iteration
// all the same; these are its uses.
struct TensorLife {
  KernelIndex first_use = 0;
  KernelIndex last_use = 0;
};

// A time during which a tensor is alive and no kernel uses it: from the end of kernel `after` to
// the start of kernel `until`. Where `wraps`, `until` belongs to the next iteration and end_ns is
// larger than the iteration.
struct InactivePeriod {
  TensorId tensor = 0;
  KernelIndex after = 0;
  KernelIndex until = 0;
  bool wraps = false;
  TimeNs start_ns = 0;  // from the start of the iteration
  TimeNs end_ns = 0;
  [[nodiscard]] TimeNs length_ns() const { return end_ns - start_ns; }
};

struct Vitality {
  std::vector<std::optional<TensorLife>> lives;  // by TensorId; nullopt: no kernel uses it
  std::vector<InactivePeriod> periods;           // by tensor, then by time
  std::vector<TimeNs> kernel_start_ns;  // one more than kernels; the last is the iteration's length
};

// Linear in the number of accesses. The trace must be valid (validate_trace).
[[nodiscard]] Vitality analyze_vitality(const Trace& trace);

}  // namespace spillway
