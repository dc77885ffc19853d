// See batch_steps.h.
#include "analysis/batch_steps.h"

#include <algorithm>
#include <cmath>

namespace spillway {

Result<BatchSteps> BatchSteps::between(const BatchMemory::Recording& one,
                                       const BatchMemory::Recording& other) {
  const auto same_kernel = [](const Kernel& a, const Kernel& b) {
    return a.name == b.name && a.reads == b.reads && a.writes == b.writes;
  };
  const auto same_kind = [](const Tensor& a, const Tensor& b) {
    return a.persistent == b.persistent && a.scratch == b.scratch;
  };
  if (!std::equal(one.trace.kernels.begin(), one.trace.kernels.end(), other.trace.kernels.begin(),
                  other.trace.kernels.end(), same_kernel) ||
      !std::equal(one.trace.tensors.begin(), one.trace.tensors.end(), other.trace.tensors.begin(),
                  other.trace.tensors.end(), same_kind)) {
    return make_error(ErrorCode::kUnsupported,
                      "steps with batches of {} and {} are not the same kernels and tensors",
                      one.batch, other.batch);
  }
  BatchSteps steps;
  steps.one_ = one.trace;
  steps.other_ = other.trace;
  steps.one_batch_ = static_cast<double>(one.batch);
  steps.apart_ = static_cast<double>(other.batch) - static_cast<double>(one.batch);
  return steps;
}

Trace BatchSteps::at(std::uint64_t batch) const {
  const double share = (static_cast<double>(batch) - one_batch_) / apart_;
  const auto line = [share](auto from, auto to) {
    const auto from_value = static_cast<double>(from);
    const double value = from_value + share * (static_cast<double>(to) - from_value);
    return static_cast<decltype(from)>(std::llround(std::max(value, 1.0)));
  };
  Trace trace = one_;
  trace.batch_size = batch;
  for (std::size_t id = 0; id < trace.tensors.size(); ++id) {
    trace.tensors[id].bytes = line(one_.tensors[id].bytes, other_.tensors[id].bytes);
  }
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    trace.kernels[i].duration_ns = line(one_.kernels[i].duration_ns, other_.kernels[i].duration_ns);
  }
  return trace;
}

}  // namespace spillway
