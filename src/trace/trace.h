// One training iteration as data: tensors, and kernels that read and write them.
// Layer: trace. Every analysis, planner and simulation starts from this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace spillway {

using TensorId = std::uint32_t;     // index into Trace::tensors
using KernelIndex = std::uint32_t;  // index into Trace::kernels: position in the iteration

struct Tensor {
  Bytes bytes = 0;          // more than 0
  bool persistent = false;  // lives across iterations (weights, optimizer state)
  bool scratch = false;     // work space of one kernel, dead when the kernel ends

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

struct Kernel {
  std::string name;
  TimeNs duration_ns = 0;  // with every operand in device memory; more than 0
  // Measured under unified memory with inputs (all operands) not resident; 0 where unknown.
  TimeNs input_fault_ns = 0;
  TimeNs all_fault_ns = 0;
  std::vector<TensorId> reads;   // no duplicates; a tensor may be both read and written
  std::vector<TensorId> writes;  // no duplicates
  // After issuing it the host waits until the device has done everything issued so far
  // (loss.item(), a blocking copy): a synchronization point.
  bool synchronizes = false;

  friend bool operator==(const Kernel&, const Kernel&) = default;
};

[[nodiscard]] inline bool reads(const Kernel& kernel, TensorId id) {
  return std::find(kernel.reads.begin(), kernel.reads.end(), id) != kernel.reads.end();
}
[[nodiscard]] inline bool writes(const Kernel& kernel, TensorId id) {
  return std::find(kernel.writes.begin(), kernel.writes.end(), id) != kernel.writes.end();
}

// A tensor that is not persistent is born at its first use and dead after its last.
struct Trace {
  std::string model;
  std::uint64_t batch_size = 0;
  std::string device;  // where it was measured, "" where unknown
  std::string dtype;
  std::vector<Tensor> tensors;
  std::vector<Kernel> kernels;  // in execution order

  friend bool operator==(const Trace&, const Trace&) = default;
};

}  // namespace spillway
