// A machine and traces in round numbers for planners: memory in pages, time in nanoseconds, rates
// in pages a nanosecond, so that plans can be worked out by hand.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "analysis/example_traces.h"
#include "machine/machine.h"
#include "trace/trace.h"

namespace spillway::test {

inline constexpr Bytes kPages = kPageBytes;  // 3 * kPages

[[nodiscard]] inline std::vector<Bytes> in_pages(std::vector<Bytes> bytes) {
  for (Bytes& each : bytes) {
    EXPECT_EQ(each % kPages, 0U);
    each /= kPages;
  }
  return bytes;
}

// A rate that moves `pages` in a nanosecond.
[[nodiscard]] inline double pages_per_ns(double pages) {
  return pages * static_cast<double>(kPageBytes) * 1e9;
}

// Link 4 pages a nanosecond each way, storage 1 page a nanosecond each way, no latencies; host
// memory and storage that never fill up.
[[nodiscard]] inline Machine page_machine(Bytes device_pages) {
  Machine machine;
  machine.name = "pages";
  machine.device.capacity_bytes = device_pages * kPages;
  machine.host.capacity_bytes = 1000 * kPages;
  machine.link.to_device_bytes_per_s = pages_per_ns(4);
  machine.link.from_device_bytes_per_s = pages_per_ns(4);
  machine.storage.capacity_bytes = 1000 * kPages;
  machine.storage.read_bytes_per_s = pages_per_ns(1);
  machine.storage.write_bytes_per_s = pages_per_ns(1);
  return machine;
}

[[nodiscard]] inline Tensor intermediate(Bytes pages) { return {pages * kPages, false, false}; }
[[nodiscard]] inline Tensor weight(Bytes pages) { return {pages * kPages, true, false}; }

// A trace of kernels k0, k1, ... of 10 ns each; uses[k] are the tensors that kernel k uses, written
// by the first kernel that does and read by the others.
[[nodiscard]] inline Trace trace_of_uses(std::vector<Tensor> tensors,
                                         const std::vector<std::vector<TensorId>>& uses) {
  Trace trace;
  trace.model = "hand";
  trace.tensors = std::move(tensors);
  std::vector<bool> seen(trace.tensors.size(), false);
  for (const std::vector<TensorId>& operands : uses) {
    Kernel made = kernel(fmt::format("k{}", trace.kernels.size()), 10, {}, {});
    for (const TensorId id : operands) {
      (seen[id] || trace.tensors[id].persistent ? made.reads : made.writes).push_back(id);
      seen[id] = true;
    }
    trace.kernels.push_back(std::move(made));
  }
  return trace;
}

[[nodiscard]] inline std::vector<TimeNs> kernel_times(const Trace& trace) {
  std::vector<TimeNs> times;
  for (const Kernel& each : trace.kernels) {
    times.push_back(each.duration_ns);
  }
  return times;
}

}  // namespace spillway::test
